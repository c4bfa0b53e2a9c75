// Draws the charts of the page in the colours of its theme, and again when that changes.
(() => {
  "use strict";
  const { themes, charts } = JSON.parse(document.getElementById("charts").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 640px)");
  const place = (index) => document.getElementById(`plot-${index}`);
  const views = new Map();

  const tip = document.body.appendChild(document.createElement("div"));
  tip.className = "tip";
  tip.hidden = true;

  // What a mark says is text, whatever stands in it; the first line is its name.
  const hint = (handler, event, item, value) => {
    tip.hidden = typeof value !== "string" || value === "";
    if (tip.hidden) return;
    const [name, ...rest] = value.split("\n");
    const strong = document.createElement("strong");
    strong.textContent = name;
    tip.replaceChildren(strong, ["", ...rest].join("\n"));
    const { width, height } = tip.getBoundingClientRect();
    const left = event.clientX + 14 + width > innerWidth ? event.clientX - 14 - width : event.clientX + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 4))}px`;
  };

  // As many entries beside each other as there is room; numbers beside bars show when pointed at.
  const fitted = (chart, theme, width) => {
    const spec = structuredClone(chart);
    const most = narrow.matches ? width * 0.45 : width;
    const left = Math.min(spec.usermeta.left, most);
    const columns = Math.max(1, Math.floor((width - left) / spec.usermeta.entry));
    spec.config = structuredClone(theme);
    spec.config.font = getComputedStyle(document.body).fontFamily;
    Object.assign(spec.config.legend, { columns, labelLimit: width - left - 40 });
    if (narrow.matches) {
      spec.layer = spec.layer.filter((layer) => layer.name !== "beside");
      spec.padding = { left: 5, top: 5, bottom: 5, right: 12 }; // half of the last label of an axis
      spec.config.axis.labelLimit = most;
      for (const layer of spec.layer) if (layer.name === "cells") layer.mark.fontSize = 8;
    }
    return spec;
  };

  const draw = async (index, theme) => {
    const box = place(index);
    const rows = charts[index].data.values.reduce((sum, row) => sum + (row.x ? row.x.length : 1), 0);
    const view = await vegaEmbed(box, fitted(charts[index], theme, box.clientWidth), {
      mode: "vega-lite",
      ast: true, // the page's policy forbids code from text
      renderer: rows > 2000 ? "canvas" : "svg",
      tooltip: hint,
      actions: narrow.matches ? false : { export: true, source: false, compiled: false, editor: false },
    });
    views.get(index)?.finalize();
    views.set(index, view);
  };

  // What is folded away has no width yet: it is drawn when it is opened.
  const shown = (index) => place(index) && !place(index).closest("details:not([open])");
  const current = () => (dark.matches ? themes.dark : themes.light);
  let drawing = Promise.resolve();
  const drawAll = (theme, chosen) => {
    drawing = drawing.then(async () => {
      for (const index of charts.keys()) {
        if (shown(index) && chosen(index)) await draw(index, theme()).catch(console.error);
      }
      document.body.dataset.plots = views.size;
    });
  };
  const again = (theme = current) => drawAll(theme, () => true);
  const missing = () => drawAll(current, (index) => !views.has(index));

  let width = innerWidth;
  let waiting = 0;
  const resized = () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(again, 150);
  };

  missing();
  for (const fold of document.querySelectorAll("details")) {
    fold.addEventListener("toggle", () => fold.open && missing());
  }
  dark.addEventListener("change", () => again());
  window.addEventListener("resize", resized);
  // Paper is white whatever the screen's theme.
  window.addEventListener("beforeprint", () => again(() => themes.light));
  window.addEventListener("afterprint", () => again());
})();
