// Numbers as people read them, and ticks of axes. Times are nanoseconds since the run's start.
const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

const niceStep = (rough) => {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999999);
};

// Ticks of a span of time. Far from the start they count from a round time, the base.
const timeTicks = (from, to, most) => {
  const step = Math.max(1, niceStep((to - from) / Math.max(1, most)));
  const [unit, scale] = UNITS.find(([, size]) => step >= size) || UNITS[3];
  const above = UNITS[Math.max(0, UNITS.findIndex(([name]) => name === unit) - 1)][1];
  const far = unit !== "s" && Math.abs(from) >= above;
  const base = far ? Math.floor(from / above) * above : 0;
  const decimals = step / scale >= 1 ? 0 : Math.ceil(-Math.log10(step / scale));
  const ticks = [];
  for (let at = Math.ceil((from - base) / step) * step; base + at <= to; at += step) {
    ticks.push({ at: base + at, text: `${far ? "+" : ""}${(at / scale).toFixed(decimals)} ${unit}` });
  }
  return { ticks, base: far ? momentText(base, above) : "" };
};

// A moment with all its digits down to a resolution, such as 1.204 117 s.
const momentText = (time, resolution = 1) => {
  const digits = Math.max(0, Math.min(9, Math.round(9 - Math.log10(Math.max(1, resolution)))));
  const [whole, fraction = ""] = (Math.abs(time) / 1e9).toFixed(9).split(".");
  const shown = fraction.slice(0, digits).replace(/(\d{3})(?=\d)/g, "$1\u202f");
  return `${time < 0 ? "−" : ""}${whole}${shown ? `.${shown}` : ""} s`;
};

const digitsText = (value) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(size) + 1e-9));
  return value.toFixed(Math.min(decimals, 6));
};

const durationText = (length) => {
  const [unit, scale] = UNITS.find(([, size]) => length >= size) || UNITS[3];
  return `${unit === "ns" ? Math.round(length) : digitsText(length / scale)} ${unit}`;
};

const bytesText = (bytes) => {
  const power = bytes < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(bytes) / 10));
  if (power === 0) return `${bytes} B`;
  const value = bytes / 1024 ** power;
  const shown = Number.isInteger(value) ? String(value) : digitsText(value);
  return `${shown} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
};

// Bytes a nanosecond are GB/s.
const rateText = (rate) => `${digitsText(rate)} GB/s`;
const countText = (count) => count.toLocaleString("en");
