// Draws the figures of the page in the colours of its theme, and again when that changes.
(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const palettes = {
    light: { text: "#1f2933", quiet: "#57606a", hover: "#ffffff" },
    dark: { text: "#e3e8ee", quiet: "#a3aeb9", hover: "#232b34" },
  };

  const narrow = window.matchMedia("(max-width: 640px)");

  // One entry of the legend in a row, and no column of numbers at the right: hovering shows them.
  const fitNarrow = (data, layout) => {
    const entries = data.filter((trace) => trace.showlegend !== false).length;
    const room = 31 * entries - 26 * Math.ceil(entries / 3) + 30;
    layout.height += room;
    layout.margin.b += room;
    layout.legend.entrywidthmode = "fraction";
    layout.legend.entrywidth = 0.95;
    layout.margin.r = 12;
    layout.annotations = (layout.annotations || []).filter((note) => note.yref === "paper");
    if (layout.meta === "chart") fitTitle(layout);
    else layout.title.subtitle.text = "";
    for (const key of Object.keys(layout)) {
      const axis = layout[key];
      if (/^xaxis/.test(key)) axis.tickangle = axis.ticktext ? -60 : 0;
      if (/^xaxis/.test(key) && axis.nticks) axis.nticks = 4;
      if (/^[xy]axis/.test(key)) axis.tickfont.size = 11;
    }
  };

  // What tells a chart from its neighbours stands in its subtitle, so that stays.
  const fitTitle = (layout) => {
    const broken = (text, most) =>
      text.split(" ").reduce((lines, word) => {
        const longer = `${lines[lines.length - 1]} ${word}`;
        if (longer.length > most) return [...lines, word];
        return [...lines.slice(0, -1), longer.trim()];
      }, [""]);
    const above = broken(layout.title.text, 42);
    const below = broken(layout.title.subtitle.text, 52);
    layout.title.text = above.join("<br>");
    layout.title.subtitle.text = below.join("<br>");
    const room = 20 * (above.length - 1) + 16 * (below.length - 1);
    layout.title.yref = "container";
    layout.title.yanchor = "top";
    layout.title.y = 1;
    layout.title.pad = { t: 14 };
    layout.margin.t += room;
    layout.height += room;
  };

  const themed = (figure, colours) => {
    const { data, layout } = structuredClone(figure);
    layout.font.color = colours.text;
    layout.hoverlabel.bgcolor = colours.hover;
    layout.hoverlabel.font.color = colours.text;
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis/.test(key)) layout[key].tickfont = { color: colours.text };
    }
    if (narrow.matches) fitNarrow(data, layout);
    for (const trace of data) {
      if (trace.meta === "text") {
        trace.marker.color = colours.text;
        trace.marker.line.color = colours.text;
      }
      if (trace.error_x) trace.error_x.color = colours.quiet;
    }
    return { data, layout };
  };

  const place = (index) => document.getElementById(`plot-${index}`);
  // What is folded away has no width yet: it is drawn when it is opened.
  const shown = (index) => place(index) && !place(index).closest("details:not([open])");

  const draw = (colours, inside = document) =>
    Promise.all(
      figures.map((figure, index) => {
        if (!shown(index) || !inside.contains(place(index))) return null;
        const { data, layout } = themed(figure, colours);
        return Plotly.react(`plot-${index}`, data, layout, {
          responsive: true,
          displaylogo: false,
          displayModeBar: narrow.matches ? false : "hover",
          modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
        });
      }),
    ).then((drawn) => {
      const before = inside === document ? 0 : Number(document.body.dataset.plots);
      document.body.dataset.plots = before + drawn.filter(Boolean).length;
    });

  const current = () => (dark.matches ? palettes.dark : palettes.light);
  draw(current());
  for (const fold of document.querySelectorAll("details")) {
    fold.addEventListener("toggle", () => fold.open && draw(current(), fold));
  }
  dark.addEventListener("change", () => draw(current()));
  narrow.addEventListener("change", () => draw(current()));
  // Paper is white whatever the screen's theme.
  window.addEventListener("beforeprint", () => draw(palettes.light));
  window.addEventListener("afterprint", () => draw(current()));
})();
