// Draws the timeline on a canvas, as much of it as is in view. Nothing is animated.
const PALETTES = {
  light: { ground: "#ffffff", ink: "#1f2933", quiet: "#57606a", line: "#dde2e8", bar: "#f6f8fa",
    hatch: "#8a939d", warn: "#b34700" },
  dark: { ground: "#161b22", ink: "#e3e8ee", quiet: "#a3aeb9", line: "#303942", bar: "#1b2129",
    hatch: "#77828e", warn: "#ff9a57" },
};
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

// Places of all rows from the top; labels stand at the left, or above on a narrow screen.
const layoutOf = (data, width, hidden) => {
  const narrow = width < 620;
  const longest = Math.max(0, ...data.lanes.map((lane) => lane.label.length),
    ...data.series.map((series) => rateName(series, "tx").length));
  const left = narrow ? 0 : Math.min(240, Math.max(168, Math.ceil(longest * 6.5) + 10));
  const rows = [];
  const axis = narrow ? 40 : 26;
  let y = axis;
  const push = (row, height, gap) => {
    if (narrow && row.kind !== "gpu") y += 15;
    rows.push({ ...row, y, height });
    y += height + gap;
  };
  for (const { index, heading } of data.gpus) {
    if (hidden.has(index)) continue;
    push({ kind: "gpu", text: heading }, 20, 2);
    for (const series of data.series.filter((one) => one.gpu === index)) {
      for (const way of ["rx", "tx"]) push({ kind: "rate", series, way }, 54, 8);
    }
    for (const lane of data.lanes.filter((one) => one.gpu === index)) {
      push({ kind: "lane", lane }, 20, 4);
    }
    y += 8;
  }
  return { narrow, left, axis, rows, height: y + 2, width };
};

const patternOf = (context, colour, gap) => {
  const tile = document.createElement("canvas");
  tile.width = tile.height = gap;
  const brush = tile.getContext("2d");
  brush.strokeStyle = colour;
  brush.lineWidth = 1.2;
  for (const shift of [-gap, 0, gap]) {
    brush.beginPath();
    brush.moveTo(shift - 1, gap + 1);
    brush.lineTo(shift + gap + 1, -1);
    brush.stroke();
  }
  return context.createPattern(tile, "repeat");
};

const sized = (canvas, width, height) => {
  const ratio = Math.min(window.devicePixelRatio || 1, 16000 / height); // browsers have a limit
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
};

const clipped = (context, text, room) => {
  if (context.measureText(text).width <= room) return text;
  let kept = text;
  while (kept && context.measureText(`${kept}…`).width > room) kept = kept.slice(0, -1);
  return kept ? `${kept}…` : "";
};

const drawAxis = (context, layout, view, colours) => {
  const { left, width, height, axis } = layout;
  const room = width - left;
  const { ticks, base } = timeTicks(view.from, view.to, room / (layout.narrow ? 78 : 95));
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const { at, text } of ticks) {
    const x = left + ((at - view.from) / (view.to - view.from)) * room;
    context.fillStyle = colours.line;
    context.fillRect(Math.round(x), axis - 6, 1, height - axis);
    const half = context.measureText(text).width / 2;
    context.fillStyle = colours.quiet;
    if (x + half < width && x - half >= left) context.fillText(text, x, 10);
  }
  context.textAlign = "left";
  if (base) {
    context.fillStyle = colours.ink;
    context.fillText(`${base} +`, 0, layout.narrow ? 26 : 10);
  }
};

const niceTop = (most) => {
  const power = 10 ** Math.floor(Math.log10(most));
  return power * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((factor) => factor * power >= most * 0.999999);
};

const drawRate = (context, layout, row, view, data, colours, hatch) => {
  const { left, width } = layout;
  const { y, height, series, way } = row;
  const room = Math.max(1, Math.floor(width - left));
  const pixel = (view.to - view.from) / room;
  const columns = Array.from({ length: room }, (_, x) =>
    rateOver(series, way, view.from + x * pixel, view.from + (x + 1) * pixel));
  const most = columns.reduce((peak, one) => Math.max(peak, one.peak), 0);
  const top = most > 0 ? niceTop(most) : 1;
  const limit = most > 0 ? `0 to ${Number(top.toPrecision(2))} GB/s` : "nothing in view";
  const up = (rate) => (rate / top) * height;
  context.fillStyle = colours.bar;
  context.fillRect(left, y, room, height);
  for (let x = 0; x < room; x++) {
    const { mean, peak, knownShare } = columns[x];
    if (knownShare < 0.5) {
      context.fillStyle = hatch;
      context.fillRect(left + x, y, 1, height);
    }
    if (knownShare <= 0) continue;
    context.fillStyle = data.ways[way];
    if (peak > 0) {
      context.globalAlpha = 0.32;
      context.fillRect(left + x, y + height - Math.max(1, up(peak)), 1, Math.max(1, up(peak)));
    }
    context.globalAlpha = 0.55;
    context.fillRect(left + x, y + height - up(mean), 1, up(mean));
    context.globalAlpha = 1;
    if (knownShare < 0.99) {
      context.fillStyle = colours.warn;
      context.fillRect(left + x, y + height, 1, 4);
    }
  }
  context.strokeStyle = data.ways[way];
  context.lineWidth = 1.4;
  context.beginPath();
  let drawing = false;
  columns.forEach(({ mean, knownShare }, x) => {
    const at = y + height - up(mean);
    if (knownShare < 0.5) drawing = false;
    else if (drawing) context.lineTo(left + x, at);
    else context.moveTo(left + x, at);
    if (knownShare >= 0.5) {
      context.lineTo(left + x + 1, at);
      drawing = true;
    }
  });
  context.stroke();
  label(context, layout, row, [rateName(series, way), limit], colours);
};

// Operations narrower than two pixels are summed up: the stronger, the longer they took.
const drawLane = (context, layout, row, view, data, colours, stripes) => {
  const { left, width } = layout;
  const { y, height, lane } = row;
  const o = data.operations;
  const room = Math.floor(width - left);
  const scale = room / (view.to - view.from);
  const crowd = [new Float32Array(room + 1), new Float32Array(room + 1)];
  const last = lane.first + lane.count;
  const first = lowerBound(o.reach, view.from, lane.first, last);
  context.fillStyle = colours.bar;
  context.fillRect(left, y, room, height);
  context.save();
  context.beginPath();
  context.rect(left, y, room, height);
  context.clip();
  for (let i = first; i < last && o.start[i] < view.to; i++) {
    if (o.end[i] < view.from) continue;
    const from = Math.max(-4, (o.start[i] - view.from) * scale);
    const to = Math.min(room + 4, (o.end[i] - view.from) * scale);
    const pale = o.pageable[i] === 1;
    const share = o.duration[i] > 0 ? 1 - o.busy[i] / o.duration[i] : 1;
    if (to - from >= 2) {
      drawBox(context, { x: left + from, y, width: to - from, height, pale, share }, lane, stripes);
      if (to - from > 44) boxText(context, data, i, left + Math.max(0, from), left + Math.min(room, to), row, pale, colours);
    } else {
      const x = Math.max(0, Math.floor(from));
      crowd[pale ? 1 : 0][x] += Math.max(0.02, Math.min(x + 1, to) - Math.max(from, x)) * share;
      if (to > x + 1) crowd[pale ? 1 : 0][x + 1] += (to - x - 1) * share;
    }
  }
  crowd.forEach((column, pale) => {
    for (let x = 0; x < room; x++) {
      if (column[x] > 0) {
        const share = Math.min(1, column[x]);
        drawBox(context, { x: left + x, y, width: 1, height, pale, share }, lane, stripes);
      }
    }
  });
  context.restore();
  label(context, layout, row, [lane.label], colours);
};

const drawBox = (context, box, lane, stripes) => {
  const strength = 0.4 + 0.6 * Math.min(1, box.share);
  const wide = box.width > 3;
  context.fillStyle = lane.colour;
  context.globalAlpha = strength * (box.pale ? 0.45 : 1);
  context.fillRect(box.x, box.y, wide ? box.width - 0.5 : box.width, box.height);
  context.globalAlpha = strength;
  if (box.pale && wide) {
    context.fillStyle = stripes.get(lane.colour);
    context.fillRect(box.x, box.y, box.width - 0.5, box.height);
  }
  context.globalAlpha = 1;
};

const boxText = (context, data, i, from, to, row, pale, colours) => {
  const o = data.operations;
  const name = o.bytes[i] > 0 ? bytesText(o.bytes[i]) : o.names[o.name[i]]; // kernels and ranges
  const shown = clipped(context, o.merged[i] > 1 ? `${countText(o.merged[i])} ×` : name, to - from - 8);
  if (!shown) return;
  const length = context.measureText(shown).width;
  if (pale) {
    context.fillStyle = colours.ground;
    context.globalAlpha = 0.8;
    context.fillRect(from + 2, row.y + 3, length + 4, row.height - 6);
    context.globalAlpha = 1;
  }
  context.fillStyle = pale ? colours.ink : "#ffffff";
  context.fillText(shown, from + 4, row.y + row.height / 2 + 0.5);
};

// The last of several texts stands right-aligned or below.
const label = (context, layout, row, texts, colours) => {
  context.textAlign = "left";
  const across = layout.narrow;
  texts.forEach((text, number) => {
    context.fillStyle = number ? colours.quiet : colours.ink;
    const room = across ? layout.width / texts.length : layout.left - 10;
    const shown = clipped(context, text, room);
    if (across) {
      const x = number ? layout.width - context.measureText(shown).width : 0;
      context.fillText(shown, x, row.y - 8);
    } else {
      const middle = texts.length === 1 ? row.height / 2 : 14 + number * 17;
      context.fillText(shown, 0, row.y + middle);
    }
  });
};

const drawTimeline = (canvas, data, layout, view, chosen, colours) => {
  const context = sized(canvas, layout.width, layout.height);
  const hatch = patternOf(context, colours.hatch, 6);
  const stripes = new Map(data.lanes.map(({ colour }) => [colour, patternOf(context, colour, 5)]));
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, layout.width, layout.height);
  context.font = `12px ${FONT}`;
  drawAxis(context, layout, view, colours);
  for (const row of layout.rows) {
    if (row.kind === "rate") drawRate(context, layout, row, view, data, colours, hatch);
    else if (row.kind === "lane") drawLane(context, layout, row, view, data, colours, stripes);
    else {
      context.font = `600 13px ${FONT}`;
      context.fillStyle = colours.ink;
      context.fillText(clipped(context, row.text, layout.width), 0, row.y + 10);
      context.font = `12px ${FONT}`;
    }
  }
  const box = chosen && boxOf(data, layout, view, chosen);
  if (box) {
    context.strokeStyle = colours.ink;
    context.lineWidth = 2;
    context.strokeRect(box.x - 1, box.y - 1, Math.max(3, box.width + 2), box.height + 2);
  }
};

// Where a chosen operation stands; null when it is out of view.
const boxOf = (data, layout, view, { lane, index }) => {
  const row = layout.rows.find((one) => one.lane === lane);
  const o = data.operations;
  if (!row || o.end[index] < view.from || o.start[index] > view.to) return null;
  const room = layout.width - layout.left;
  const scale = room / (view.to - view.from);
  const from = Math.max(0, (o.start[index] - view.from) * scale);
  const to = Math.min(room, (o.end[index] - view.from) * scale);
  return { x: layout.left + from, y: row.y, width: to - from, height: row.height };
};

const drawOverview = (canvas, data, width, view, colours, hidden) => {
  const height = 40;
  const context = sized(canvas, width, height);
  const span = data.end - data.begin;
  context.fillStyle = colours.bar;
  context.fillRect(0, 0, width, height);
  for (const way of ["rx", "tx"]) {
    const sum = new Float64Array(width);
    for (const { index } of data.gpus.filter((one) => !hidden.has(one.index))) {
      const series = data.series.find((one) => one.gpu === index && one.link !== "nvlink");
      for (let x = 0; series && x < width; x++) {
        const from = data.begin + (x / width) * span;
        sum[x] += rateOver(series, way, from, from + span / width).mean;
      }
    }
    drawHalf(context, sum, data.ways[way], way === "rx" ? -1 : 1, height);
  }
  if (!data.series.length) drawBusy(context, data, width, height, span);
  const [from, to] = [view.from, view.to].map((at) => ((at - data.begin) / span) * width);
  context.fillStyle = colours.ground;
  context.globalAlpha = 0.65;
  context.fillRect(0, 0, from, height);
  context.fillRect(to, 0, width - to, height);
  context.globalAlpha = 1;
  context.strokeStyle = colours.ink;
  context.lineWidth = 1.5;
  context.strokeRect(from + 0.75, 0.75, Math.max(2, to - from - 1.5), height - 1.5);
};

// To GPUs upwards, from GPUs downwards.
const drawHalf = (context, sum, colour, sign, height) => {
  const most = sum.reduce((peak, one) => Math.max(peak, one), 0);
  context.fillStyle = colour;
  for (let x = 0; most > 0 && x < sum.length; x++) {
    const length = (sum[x] / most) * (height / 2 - 2);
    context.fillRect(x, sign < 0 ? height / 2 - length : height / 2, 1, length);
  }
};

const drawBusy = (context, data, width, height, span) => {
  const o = data.operations;
  for (const lane of data.lanes) {
    context.fillStyle = lane.colour;
    for (let i = lane.first, painted = -1; i < lane.first + lane.count; i++) {
      const from = Math.max(painted, ((o.start[i] - data.begin) / span) * width);
      const to = Math.max(from + 0.5, ((o.end[i] - data.begin) / span) * width);
      if (to > painted + 0.5) context.fillRect(from, height / 4, to - from, height / 2);
      painted = Math.max(painted, to);
    }
  }
};
