// The page's columns, and how rates over any span are found in them.

const inflated = async (base64) => {
  const packed = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

// As timeline_pack.py writes them: planes of bytes, the lowest first.
const columnsOf = (bytes, described) => {
  let at = 0;
  return described.map(({ rows, width, signed, growing }) => {
    const column = new Float64Array(rows);
    for (let plane = 0, scale = 1; plane < width; plane++, scale *= 256) {
      for (let row = 0; row < rows; row++) column[row] += bytes[at++] * scale;
    }
    for (let row = 0; signed && row < rows; row++) {
      const odd = column[row] % 2;
      column[row] = odd ? -(column[row] + 1) / 2 : column[row] / 2;
    }
    for (let row = 1; growing && row < rows; row++) column[row] += column[row - 1];
    return column;
  });
};

const UNKNOWN = 0xffff;
const unrounded = (code) => {
  if (code < 2048) return code;
  const exponent = Math.floor(code / 1024) - 1;
  return (code - exponent * 1024) * 2 ** exponent;
};

// First index in [low, high) whose value is not below the wanted one; high when there is none.
const lowerBound = (sorted, wanted, low = 0, high = sorted.length) => {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
};

// Maxima of 16, 256, ... neighbours, so that the peak of any span takes a few looks.
const pyramidOf = (base) => {
  const levels = [base];
  while (levels[levels.length - 1].length > 16) {
    const below = levels[levels.length - 1];
    const level = new Float32Array(Math.ceil(below.length / 16));
    for (let i = 0; i < below.length; i++) level[i >> 4] = Math.max(level[i >> 4], below[i]);
    levels.push(level);
  }
  return levels;
};

const peakOf = (levels, from, to) => {
  let peak = 0;
  for (let level = 0; from < to; level++) {
    const values = levels[level];
    const last = level === levels.length - 1;
    while (from < to && (last || from % 16)) peak = Math.max(peak, values[from++]);
    while (from < to && to % 16) peak = Math.max(peak, values[--to]);
    from /= 16;
    to /= 16;
  }
  return peak;
};

// One counter: record i lasts from time[i - 1] to time[i]. Sums make the mean of any span cheap.
const seriesOf = (told, columns) => {
  const time = columns[told.time];
  const count = time.length;
  const known = new Float64Array(count);
  const ways = {};
  for (let i = 1; i < count; i++) {
    const seen = columns[told.rx][i] !== UNKNOWN && columns[told.tx][i] !== UNKNOWN;
    known[i] = known[i - 1] + (seen ? time[i] - time[i - 1] : 0);
  }
  for (const way of ["rx", "tx"]) {
    const sums = new Float64Array(count);
    const peaks = new Float32Array(count);
    const stored = told[`${way}Peak`];
    for (let i = 1; i < count; i++) {
      const length = known[i] - known[i - 1];
      const bytes = length > 0 ? unrounded(columns[told[way]][i]) : 0;
      sums[i] = sums[i - 1] + bytes;
      if (length > 0) peaks[i] = stored === null ? bytes / length : unrounded(columns[stored][i]) / 1e9;
    }
    ways[way] = { sums, peaks: pyramidOf(peaks) };
  }
  return { ...told, time, known, ways };
};

// A running sum at a moment, as if each record's bytes were spread evenly over it.
const sumAt = (time, sums, moment, index) => {
  if (index === 0) return 0;
  if (index >= time.length) return sums[time.length - 1];
  const before = time[index - 1];
  const share = (moment - before) / (time[index] - before);
  return sums[index - 1] + (sums[index] - sums[index - 1]) * share;
};

// Mean and peak of a span in GB/s, and how much of it is known.
const rateOver = (series, way, from, to) => {
  const { time, known } = series;
  const first = lowerBound(time, from);
  const last = lowerBound(time, to, first);
  const { sums, peaks } = series.ways[way];
  const length = sumAt(time, known, to, last) - sumAt(time, known, from, first);
  const bytes = sumAt(time, sums, to, last) - sumAt(time, sums, from, first);
  const begin = time[first] === from ? first + 1 : first;
  return {
    knownShare: Math.max(0, length / (to - from)),
    mean: length > 0 ? Math.max(0, bytes / length) : 0,
    peak: peakOf(peaks, begin, Math.min(last + 1, time.length)),
    records: Math.min(last, time.length - 1) - begin + 1,
  };
};

// Operations in columns, sorted by lane and start; `reach` is the latest end so far in a lane.
const operationsOf = (told, lanes, columns) => {
  const found = { names: told.names };
  for (const [key, number] of Object.entries(told)) {
    if (key !== "names") found[key] = columns[number];
  }
  found.end = found.start.map((start, i) => start + found.duration[i]);
  found.reach = found.end.slice();
  for (const { first, count } of lanes) {
    for (let i = first + 1; i < first + count; i++) {
      found.reach[i] = Math.max(found.reach[i], found.reach[i - 1]);
    }
  }
  return found;
};

const loadTimeline = async () => {
  const told = JSON.parse(document.getElementById("timeline-told").textContent);
  const bytes = await inflated(document.getElementById("timeline-columns").textContent);
  const columns = columnsOf(bytes, told.columns);
  const series = told.series.map((one) => seriesOf(one, columns));
  const operations = operationsOf(told.operations, told.lanes, columns);
  let [begin, end] = [0, told.end];
  for (const { time } of series) {
    begin = Math.min(begin, time[0]);
    end = Math.max(end, time[time.length - 1]);
  }
  for (const { first, count } of told.lanes) {
    begin = Math.min(begin, operations.start[first]);
    end = Math.max(end, operations.reach[first + count - 1]);
  }
  return { ...told, series, operations, begin, end };
};
