// What is told of the thing under the pointer: a title and lines.

const memoryText = (data, kind) => data.memory[kind] || "unknown";

const operationWords = (data, i) => {
  const o = data.operations;
  const what = data.what[o.what[i]];
  const copied = what === "copy" || what === "migration";
  const name = o.names[o.name[i]];
  const kind = copied ? `${data.directions[o.direction[i]]} ${what}` : what;
  const size = o.bytes[i] > 0 ? `${bytesText(o.bytes[i])}, ` : "";
  const rate = copied && o.duration[i] > 0 && o.merged[i] === 1
    ? `, ${rateText(o.bytes[i] / o.duration[i])}` : "";
  const when = `from ${momentText(o.start[i])}`;
  if (o.merged[i] > 1) {
    const busy = durationText(o.duration[i] - o.busy[i]);
    return {
      title: `${countText(o.merged[i])} short operations, merged: ${kind}`,
      lines: [`${size}within ${durationText(o.duration[i])}, at work for ${busy}`, when],
    };
  }
  const ends = `${memoryText(data, o.from[i])} → ${memoryText(data, o.to[i])} memory`;
  const how = what !== "copy" ? "" : o.asynchronous[i] ? ", asynchronous" : ", synchronous";
  const who = [...(what === "range" ? [] : [`stream ${o.stream[i]}`]), `process ${o.pid[i]}`];
  if (o.thread[i] >= 0) who.push(`thread ${o.thread[i]}`);
  return {
    title: what === "kernel" ? `kernel ${name || "without a name"}` : kind,
    lines: [
      `${size}${durationText(o.duration[i])}${rate}`,
      ...(copied ? [`${ends}${how}`] : []),
      ...(name && what !== "kernel" ? [name] : []),
      who.join(", "),
      when,
    ],
  };
};

const WAYS = { rx: "to GPU", tx: "from GPU" };
const NVLINK_WAYS = { rx: "NVLink rx", tx: "NVLink tx" };

const rateName = ({ link, source }, way) =>
  link === "nvlink" ? `${NVLINK_WAYS[way]} (${source})` : `${WAYS[way]}, wire (${source})`;

const rateWords = (series, way, from, to) => {
  const { time } = series;
  const index = lowerBound(time, (from + to) / 2);
  const inside = index > 0 && index < time.length && time[index] - time[index - 1] >= to - from;
  const [begin, end] = inside ? [time[index - 1], time[index]] : [from, to];
  const rate = rateOver(series, way, begin, end);
  const what = series.link === "nvlink" ? NVLINK_WAYS[way] : `${WAYS[way]} on the wire`;
  const title = `${what}, g${series.gpu} by ${series.source}`;
  const when = `${durationText(end - begin)} from ${momentText(begin)}`;
  if (rate.knownShare < 1e-9) return { title, lines: ["not known", when] };
  const missing = rate.knownShare < 0.99 ? `${Math.round(100 - rate.knownShare * 100)} % not known` : "";
  const single = rate.records <= 1 && series.rxPeak === null;
  const value = single
    ? `${rateText(rate.mean)}, ${bytesText(Math.round(rate.mean * (end - begin)))}`
    : `mean ${rateText(rate.mean)}, peak ${rateText(rate.peak)}`;
  return { title, lines: [value, ...(missing ? [missing] : []), when] };
};
