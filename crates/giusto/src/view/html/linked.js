"use strict";
// Plots that share their x axis, and the table that tells what holds at the cursor. The library draws; this only listens.
addEventListener("load", () => document.querySelectorAll(".linked").forEach((linked) => {
  const data = JSON.parse(linked.querySelector('script[type="application/json"]').textContent);
  const plots = [...linked.querySelectorAll(".js-plotly-plot")];
  const rows = [...linked.querySelectorAll(".cursor tbody tr")];
  const slider = linked.querySelector("input[type=range]");
  const choice = linked.querySelector("select");
  const moment = linked.querySelector(".moment");
  const few = matchMedia("(prefers-reduced-motion: reduce)").matches ? 250 : 0;
  let place = data.start, waiting = false;

  const nearest = (x) => {
    let [low, high] = [0, data.places.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (data.places[middle] <= x) low = middle; else high = middle;
    }
    return x - data.places[low] <= data.places[high] - x ? low : high;
  };
  const ago = (seconds) => `${seconds < 9.995 ? seconds.toFixed(2) : seconds.toFixed(0)} s ago`;
  const tell = () => {
    const x = data.places[place];
    const text = `${x.toFixed(2)} s`;
    moment.textContent = text;
    slider.value = place;
    slider.setAttribute("aria-valuetext", text);
    const lines = data.groups[choice ? choice.selectedIndex : 0];
    rows.forEach((row, number) => {
      const line = lines[number];
      row.querySelectorAll("td.n").forEach((cell, column) => {
        const value = line.values[column][place];
        cell.textContent = value == null ? "–" : value.toFixed(data.decimals[column]);
      });
      const said = line.said[line.holds[place]], also = line.said[line.also[place]];
      const cell = row.querySelector("td.says");
      cell.textContent = said ? `${ago(x - said[0])}: ${said[1]}` : "–";
      if (also) {
        const more = document.createElement("small");
        more.textContent = `last cut ${ago(x - also[0])}: ${also[1]}`;
        cell.append(more);
      }
    });
  };
  // Plots out of sight are drawn when they come into it.
  const seen = new Set(), drawn = new Map();
  const draw = () => {
    waiting = false;
    const x = data.places[place];
    seen.forEach((plot) => {
      if (drawn.get(plot) === x) return;
      drawn.set(plot, x);
      Plotly.relayout(plot, { "shapes[0].x0": x, "shapes[0].x1": x });
    });
  };
  const watcher = new IntersectionObserver((entries) => {
    entries.forEach(({ target, isIntersecting }) => (isIntersecting ? seen.add(target) : seen.delete(target)));
    draw();
  });
  plots.forEach((plot) => watcher.observe(plot));
  const go = (to) => {
    place = Math.min(Math.max(to, 0), data.places.length - 1);
    tell();
    if (waiting) return;
    waiting = true;
    if (few) setTimeout(draw, few); else requestAnimationFrame(draw);
  };

  slider.max = data.places.length - 1;
  slider.addEventListener("input", () => go(Number(slider.value)));
  choice?.addEventListener("change", tell);
  rows.forEach((row, number) => row.querySelector("input").addEventListener("change", (event) => {
    const visible = event.target.checked;
    plots.filter((plot) => plot.closest(".low")).forEach((plot) => Plotly.restyle(plot, { visible }, [number]));
  }));
  linked.querySelectorAll(".key").forEach((key) => {
    key.style.borderTopColor = key.parentElement.style.getPropertyValue("--line");
  });
  let moving = false;
  plots.forEach((plot) => {
    // A finger does not hover, it taps.
    ["plotly_hover", "plotly_click"].forEach((what) => plot.on(what, (event) => go(nearest(event.points[0].x))));
    plot.on("plotly_relayout", (change) => {
      if (moving || !Object.keys(change).some((key) => key.startsWith("xaxis"))) return;
      moving = true;
      const range = [...plot.layout.xaxis.range];
      const others = plots.filter((other) => other !== plot);
      Promise.all(others.map((other) => Plotly.relayout(other, { "xaxis.range": range }))).finally(() => { moving = false; });
    });
  });
  // A page can be opened at a moment: report.html#t=12.5
  const asked = () => {
    const found = /^#t=([0-9.]+)$/.exec(location.hash);
    return found ? nearest(Number(found[1])) : data.start;
  };
  addEventListener("hashchange", () => go(asked()));
  go(asked());
}));
