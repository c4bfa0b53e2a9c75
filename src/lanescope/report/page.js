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
    layout.title.subtitle.text = "";
    for (const key of Object.keys(layout)) {
      const axis = layout[key];
      if (/^xaxis/.test(key)) axis.tickangle = axis.ticktext ? -60 : 0;
      if (/^xaxis/.test(key) && axis.nticks) axis.nticks = 4;
      if (/^[xy]axis/.test(key)) axis.tickfont.size = 11;
    }
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

  const draw = (colours) =>
    Promise.all(
      figures.map((figure, index) => {
        const { data, layout } = themed(figure, colours);
        return Plotly.react(`plot-${index}`, data, layout, {
          responsive: true,
          displaylogo: false,
          displayModeBar: narrow.matches ? false : "hover",
          modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
        });
      }),
    ).then((drawn) => {
      document.body.dataset.plots = drawn.length;
    });

  const current = () => (dark.matches ? palettes.dark : palettes.light);
  draw(current());
  dark.addEventListener("change", () => draw(current()));
  narrow.addEventListener("change", () => draw(current()));
  // Paper is white whatever the screen's theme.
  window.addEventListener("beforeprint", () => draw(palettes.light));
  window.addEventListener("afterprint", () => draw(current()));
})();
