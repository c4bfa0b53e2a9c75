// The view, and how pointer, wheel, keys and buttons change it.
const NARROWEST = 100; // nanoseconds

const startTimeline = (data) => {
  const box = document.getElementById("timeline-box");
  const main = document.getElementById("timeline-main");
  const canvas = main.querySelector("canvas");
  const overview = document.getElementById("timeline-overview");
  const tip = document.getElementById("timeline-tip");
  const detail = document.getElementById("timeline-detail");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const hidden = new Set();
  const view = { from: data.begin, to: data.end };
  let layout = null;
  let chosen = null;
  let drag = null;
  let waiting = false;

  const draw = (colours) => {
    const width = Math.max(200, main.clientWidth);
    layout = layoutOf(data, width, hidden);
    drawTimeline(canvas, data, layout, view, chosen, colours);
    drawOverview(overview, data, width - 2, view, colours, hidden);
    const whole = view.from === data.begin && view.to === data.end;
    const resolution = Math.max(1, (view.to - view.from) / 1000);
    document.getElementById("timeline-span").textContent =
      `${durationText(view.to - view.from)}${whole ? ", the whole run" : ` from ${momentText(view.from, resolution)}`}`;
    if (drag && drag.select) markSelection();
    document.body.dataset.timeline = `${view.from} ${view.to}`;
  };
  const current = () => (dark.matches ? PALETTES.dark : PALETTES.light);
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw(current());
    });
  };

  const show = (from, to) => {
    const length = Math.min(data.end - data.begin, Math.max(NARROWEST, to - from));
    const middle = (from + to) / 2;
    view.from = Math.max(data.begin, Math.min(data.end - length, middle - length / 2));
    view.to = view.from + length;
    redraw();
  };
  const zoom = (factor, around = (view.from + view.to) / 2) =>
    show(around - (around - view.from) * factor, around + (view.to - around) * factor);
  const move = (share) => {
    const by = Math.max(data.begin - view.from, Math.min(data.end - view.to, (view.to - view.from) * share));
    show(view.from + by, view.to + by);
  };
  const timeAt = (x) => view.from + ((x - layout.left) / (layout.width - layout.left)) * (view.to - view.from);

  const tell = ({ title, lines }, x, y) => {
    tip.replaceChildren(...[title, ...lines].map((words, number) => {
      const line = document.createElement(number ? "span" : "b");
      line.textContent = words;
      return line;
    }));
    tip.hidden = false;
    const [right, below] = [x + 14 + tip.offsetWidth > layout.width, y + 18];
    tip.style.left = `${Math.max(0, right ? Math.min(x, layout.width) - tip.offsetWidth - 10 : x + 14)}px`;
    tip.style.top = `${below}px`;
  };
  const silence = () => {
    tip.hidden = true;
  };

  // The operation at a moment, or the nearest within three pixels; the shortest of several.
  const operationAt = (lane, time) => {
    const o = data.operations;
    const reach = (3 * (view.to - view.from)) / (layout.width - layout.left);
    const last = lane.first + lane.count;
    let best = null;
    for (let i = lowerBound(o.reach, time - reach, lane.first, last); i < last && o.start[i] <= time + reach; i++) {
      const away = Math.max(0, o.start[i] - time, time - o.end[i]);
      if (away > reach) continue;
      if (!best || away < best.away || (away === best.away && o.duration[i] < o.duration[best.index])) {
        best = { index: i, away };
      }
    }
    return best && { lane, index: best.index };
  };
  const rowAt = (y) => layout.rows.find((row) => row.kind !== "gpu" && y >= row.y && y <= row.y + row.height + 3);
  const placeOf = (event) => {
    const { left, top } = main.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };
  const hover = ({ x, y }) => {
    const row = x >= layout.left && rowAt(y);
    if (!row) return silence();
    if (row.kind === "rate") {
      const pixel = timeAt(x + 1) - timeAt(x);
      return tell(rateWords(row.series, row.way, timeAt(x), timeAt(x) + pixel), x, y);
    }
    const found = operationAt(row.lane, timeAt(x));
    return found ? tell(operationWords(data, found.index), x, y) : silence();
  };

  const choose = (found) => {
    chosen = found;
    if (!found) {
      detail.textContent = "";
      silence();
      return redraw();
    }
    const o = data.operations;
    const { index, lane } = found;
    if (o.start[index] < view.from || o.end[index] > view.to) {
      const length = Math.max(view.to - view.from, o.duration[index] * 1.2);
      const middle = o.start[index] + o.duration[index] / 2;
      show(middle - length / 2, middle + length / 2);
    }
    draw(current());
    const { title, lines } = operationWords(data, index);
    detail.textContent = `${lane.gpu < 0 ? "" : `g${lane.gpu}, `}${lane.label}: ${[title, ...lines].join("; ")}`;
    const place = boxOf(data, layout, view, found);
    if (place) tell({ title, lines }, place.x + Math.min(place.width, 40), place.y + 6);
    return null;
  };
  const lanesShown = () => data.lanes.filter((lane) => !hidden.has(lane.gpu));
  const step = (by) => {
    const lane = chosen ? chosen.lane : lanesShown()[0];
    if (!lane) return;
    const inView = lowerBound(data.operations.start, view.from, lane.first, lane.first + lane.count);
    const wanted = chosen ? chosen.index + by : by > 0 ? inView : inView - 1;
    choose({ lane, index: Math.max(lane.first, Math.min(lane.first + lane.count - 1, wanted)) });
  };
  const changeLane = (by) => {
    const lanes = lanesShown();
    if (!lanes.length) return;
    const lane = chosen ? lanes[lanes.indexOf(chosen.lane) + by] : lanes[by > 0 ? 0 : lanes.length - 1];
    if (!lane) return;
    const time = chosen ? data.operations.start[chosen.index] : (view.from + view.to) / 2;
    const next = lowerBound(data.operations.start, time, lane.first, lane.first + lane.count - 1);
    choose({ lane, index: next });
  };
  const fill = () => {
    if (!chosen) return;
    const o = data.operations;
    const margin = Math.max(o.duration[chosen.index] * 0.15, NARROWEST / 4);
    show(o.start[chosen.index] - margin, o.end[chosen.index] + margin);
    choose(chosen);
  };

  const deeds = {
    in: () => zoom(0.5),
    out: () => zoom(2),
    left: () => move(-0.25),
    right: () => move(0.25),
    reset: () => show(data.begin, data.end),
    next: () => step(1),
    previous: () => step(-1),
    up: () => changeLane(-1),
    down: () => changeLane(1),
    fill,
    drop: () => choose(null),
  };
  const keys = { "+": "in", "=": "in", "-": "out", "−": "out", ArrowLeft: "left", ArrowRight: "right",
    ArrowUp: "up", ArrowDown: "down", Home: "reset", 0: "reset", n: "next", p: "previous", Enter: "fill",
    Escape: "drop" };
  main.addEventListener("keydown", (event) => {
    const deed = keys[event.key];
    if (!deed || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (["in", "out", "left", "right", "reset"].includes(deed)) silence();
    deeds[deed]();
  });
  for (const button of box.querySelectorAll("button[data-do]")) {
    button.addEventListener("click", () => deeds[button.dataset.do]());
  }

  // The wheel scrolls the page until the timeline was clicked, or with Ctrl held.
  main.addEventListener("wheel", (event) => {
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      silence();
      return move((event.deltaX || event.deltaY) / layout.width);
    }
    if (!event.ctrlKey && document.activeElement !== main) return null;
    event.preventDefault();
    silence();
    const lines = event.deltaMode === 1 ? 20 : 1;
    return zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * lines * 0.002))), timeAt(placeOf(event).x));
  }, { passive: false });

  const markSelection = () => {
    const context = canvas.getContext("2d");
    context.fillStyle = current().ink;
    context.globalAlpha = 0.15;
    context.fillRect(drag.x, 0, drag.now - drag.x, layout.height);
    context.globalAlpha = 1;
  };
  const fingers = new Map();
  const pinch = () => [...fingers.values()].sort((a, b) => a - b);
  main.addEventListener("pointerdown", (event) => {
    const { x } = placeOf(event);
    main.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, x);
    const select = event.pointerType !== "touch" && !event.shiftKey && event.button === 0;
    drag = { x, now: x, select, time: timeAt(x), spread: fingers.size === 2 ? pinch().map(timeAt) : null };
  });
  main.addEventListener("pointermove", (event) => {
    const { x, y } = placeOf(event);
    if (!drag || !fingers.has(event.pointerId)) return hover({ x, y });
    fingers.set(event.pointerId, x);
    drag.now = x;
    if (Math.abs(x - drag.x) > 3) silence();
    if (drag.spread && fingers.size === 2) return pinched();
    if (drag.select) return redraw();
    const by = drag.time - timeAt(x);
    return show(view.from + by, view.to + by);
  });
  // Both fingers stay on the moments that they were put on.
  const pinched = () => {
    const [a, b] = pinch();
    const scale = (drag.spread[1] - drag.spread[0]) / Math.max(8, b - a);
    const from = drag.spread[0] - (a - layout.left) * scale;
    show(from, from + (layout.width - layout.left) * scale);
  };
  const release = (event) => {
    fingers.delete(event.pointerId);
    const { x, y } = placeOf(event);
    const ended = drag;
    drag = null;
    if (!ended || event.type === "pointercancel") return redraw();
    if (Math.abs(x - ended.x) < 4) {
      const row = rowAt(y);
      if (row && row.kind === "lane") choose(operationAt(row.lane, timeAt(x)));
      else hover({ x, y });
    } else if (ended.select) {
      show(Math.min(ended.time, timeAt(x)), Math.max(ended.time, timeAt(x)));
    }
    return redraw();
  };
  main.addEventListener("pointerup", release);
  main.addEventListener("pointercancel", release);
  main.addEventListener("pointerleave", () => !drag && silence());
  main.addEventListener("dblclick", () => (chosen ? fill() : zoom(0.5)));

  const follow = (event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    const { left, width } = overview.getBoundingClientRect();
    const time = data.begin + ((event.clientX - left) / width) * (data.end - data.begin);
    const half = (view.to - view.from) / 2;
    silence();
    show(time - half, time + half);
  };
  overview.addEventListener("pointerdown", follow);
  overview.addEventListener("pointermove", follow);

  offerGpus(data, hidden, redraw);
  showLegend(data);
  box.hidden = false;
  draw(current());
  new ResizeObserver(redraw).observe(main);
  dark.addEventListener("change", redraw);
  // Paper is white whatever the screen's theme.
  window.addEventListener("beforeprint", () => draw(PALETTES.light));
  window.addEventListener("afterprint", redraw);
};

const IDLE_SHARE = 0.01;
// With several GPUs each can be left out; of many, those that did next to nothing are at first.
const offerGpus = (data, hidden, redraw) => {
  const moved = new Map(data.gpus.map(({ index }) => [index, 0]));
  for (const { gpu, ways } of data.series) {
    const bytes = ways.rx.sums[ways.rx.sums.length - 1] + ways.tx.sums[ways.tx.sums.length - 1];
    moved.set(gpu, Math.max(moved.get(gpu), bytes));
  }
  const most = Math.max(...moved.values());
  for (const { index, label: name } of data.gpus.length > 1 ? data.gpus : []) {
    const [label, tick] = [document.createElement("label"), document.createElement("input")];
    const worked = data.lanes.some(({ gpu }) => gpu === index);
    const idle = !worked && moved.get(index) < IDLE_SHARE * most;
    tick.type = "checkbox";
    tick.checked = !(idle && data.gpus.length > 2);
    if (!tick.checked) hidden.add(index);
    tick.addEventListener("change", () => {
      if (tick.checked) hidden.delete(index);
      else hidden.add(index);
      redraw();
    });
    label.append(tick, ` ${name}`);
    document.getElementById("timeline-gpus").append(label);
  }
  if (hidden.size) document.getElementById("timeline-gpus").append("(the others moved next to nothing)");
};

const showLegend = (data) => {
  const legend = document.getElementById("timeline-legend");
  const entry = (words, background) => {
    const [item, patch] = [document.createElement("li"), document.createElement("i")];
    patch.style.background = background;
    item.append(patch, words);
    legend.append(item);
  };
  const stripes = (colour) => `repeating-linear-gradient(-45deg, ${colour} 0 1.5px, ${colour}55 1.5px 5px)`;
  if (data.series.length || data.lanes.length) {
    entry("to GPU (h2d)", data.ways.rx);
    entry("from GPU (d2h)", data.ways.tx);
  }
  if (data.operations.pageable.includes(1)) entry("pageable host memory", stripes(data.ways.rx));
  if (data.series.length) {
    entry("mean, with the peak above it", `linear-gradient(${data.ways.rx}55 50%, ${data.ways.rx} 50%)`);
    entry("not known", "repeating-linear-gradient(-45deg, #8a939d 0 1.5px, transparent 1.5px 5px)");
  }
};

loadTimeline().then(startTimeline).catch((error) => {
  const failed = document.getElementById("timeline-failed");
  failed.textContent = `The timeline could not be drawn: ${error.message}. A browser of 2023 or newer is needed.`;
  failed.hidden = false;
});
