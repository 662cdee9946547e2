"use strict";
// Inspects a page, and leaves what it finds in `found`: {width, dark, charts, tables, text, problems}.
// It stands before all other scripts, so that it receives their errors.
(() => {
  const MIN_PLOT_SHARE = 0.55, MIN_PLOT_HEIGHT = 150, MIN_CONTRAST = 4.5, MIN_DRAWN_TEXT = 8, MAX_HEAD_HEIGHT = 100, TOLERANCE = 1.5;
  const problems = [];
  const say = (...parts) => problems.push(parts.join(" "));
  addEventListener("error", (event) => say("error:", event.message));
  addEventListener("unhandledrejection", (event) => say("rejection:", event.reason));
  document.addEventListener("securitypolicyviolation", (event) => say("policy:", event.violatedDirective, event.blockedURI));
  for (const level of ["error", "warn"]) console[level] = (...parts) => say(`console.${level}:`, ...parts);

  const shortened = (text) => JSON.stringify(text.trim().replace(/\s+/g, " ").slice(0, 60));
  const isHidden = (element) => Boolean(element.closest(".hidden, script, style, noscript, [aria-hidden=true] .hidden"))
    || getComputedStyle(element).visibility === "hidden" || getComputedStyle(element).display === "none";

  const colour = (text) => {
    const [red, green, blue, alpha = 1] = (text.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
    return { rgb: [red, green, blue], alpha };
  };
  const luminance = ({ rgb }) => rgb.map((part) => part / 255)
    .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = colour(getComputedStyle(at).backgroundColor);
      if (found.alpha > 0.99) return found;
    }
    return { rgb: [255, 255, 255], alpha: 1 };
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const inside = (inner, outer) => inner.left >= outer.left - TOLERANCE && inner.right <= outer.right + TOLERANCE
    && inner.top >= outer.top - TOLERANCE && inner.bottom <= outer.bottom + TOLERANCE;

  const checkTexts = () => {
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode, element = node.parentElement;
      if (!node.data.trim() || isHidden(element) || element.tagName === "title") continue;
      const style = getComputedStyle(element), svg = element.closest("svg");
      const ink = colour(svg ? style.fill : style.color), name = shortened(node.data);
      // Letters with an outline painted below them stand on that.
      const isOutlined = svg && style.paintOrder.startsWith("stroke") && parseFloat(style.strokeWidth) >= 2;
      const ratio = contrast(ink, isOutlined ? colour(style.stroke) : ground(element));
      if (ratio < MIN_CONTRAST) say("contrast", ratio.toFixed(2), "of", name, style.color);
      const range = document.createRange();
      range.selectNodeContents(node);
      const box = range.getBoundingClientRect();
      if (!box.width) continue;
      const frame = svg && (svg.closest(".plot") ?? svg);
      if (frame && !inside(box, frame.getBoundingClientRect())) say("clipped text", name, "in", frame.className.baseVal ?? frame.className);
      if (!element.closest(".scroll") && (box.left < -TOLERANCE || box.right > innerWidth + TOLERANCE)) say("text outside the page", name);
      for (let at = element; at && at.tagName !== "MAIN" && !svg; at = at.parentElement) {
        if (getComputedStyle(at).overflowX === "hidden" && !inside(box, at.getBoundingClientRect())) say("text cut off", name);
      }
    }
  };

  const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > TOLERANCE
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > TOLERANCE;
  const checkChart = ({ plot, model, drawn, legend }) => {
    const name = shortened(model.title);
    if (!drawn || !plot._fullLayout) return say("chart not drawn", name);
    const { w, h } = plot._fullLayout._size;
    if (w < MIN_PLOT_SHARE * plot.clientWidth) say("plot of", w, "px in", plot.clientWidth, "px:", name);
    if (h < MIN_PLOT_HEIGHT) say("plot of", h, "px height:", name);
    if (plot.querySelectorAll(".trace").length < model.series.length) say("series missing in", name);
    if (plot.querySelector(".legend") || legend.scrollWidth > legend.clientWidth + 1) say("legend does not fit", name);
    if (plot._context.showSendToCloud || plot._context.plotlyServerURL) say("chart can be uploaded", name);
    const looks = plot._fullData.map(({ type, mode, line, marker }) => (
      type === "bar" ? `bar ${marker.color} ${marker.pattern.shape}` : mode === "markers" ? `${marker.color} ${marker.symbol}` : `${line.color} ${line.dash}`
    ));
    looks.push(...plot._fullLayout.shapes.filter(({ line }) => line.dash !== "solid").map(({ line }) => `${line.color} ${line.dash}`));
    if (new Set(looks).size < looks.length) say("two series look alike in", name, looks.join(", "));
    for (const ticks of [".xtick text", ".ytick text"]) {
      const boxes = [...plot.querySelectorAll(ticks)].map((text) => text.getBoundingClientRect());
      boxes.forEach((box, place) => { if (place && overlap(box, boxes[place - 1])) say("tick labels overlap in", name); });
    }
    const boxes = [...plot.querySelectorAll(".annotation-text")].map((text) => text.getBoundingClientRect());
    const names = model.series.flatMap(({ events }) => events?.filter(({ label }) => label) ?? []);
    if (boxes.length !== names.length) say(boxes.length, "of", names.length, "points have their names in", name);
    if (boxes.some((box, place) => boxes.slice(place + 1).some((other) => overlap(box, other)))) say("names of points overlap in", name);
    return undefined;
  };

  const checkScroll = (box) => {
    if (!box.clientWidth || box.closest(".cursor")) return;
    const overflows = box.scrollWidth > box.clientWidth + 1;
    const { clientHeight } = box.querySelector("thead");
    if (!box.querySelector(".list") && clientHeight > MAX_HEAD_HEIGHT) say("the head of", box.getAttribute("aria-label"), "is", clientHeight, "px high");
    const named = (cell) => !cell.textContent || getComputedStyle(cell, "::before").content !== "none";
    const cells = [...box.querySelectorAll(".list td:not(:nth-child(2):last-child)")];
    if (innerWidth <= 560 && !cells.every(named)) say("values without their names in", box.getAttribute("aria-label"));
    if (overflows && box.querySelector(".list")) say(box.getAttribute("aria-label"), "scrolls sideways");
    const hint = box.parentElement.querySelector(".hint");
    if (overflows !== (getComputedStyle(hint).display !== "none")) say("scroll hint is wrong at", box.getAttribute("aria-label"));
    const first = box.querySelector("tbody th");
    if (!overflows || !first) return;
    box.scrollLeft = 10_000;
    const edge = box.getBoundingClientRect().left;
    if (Math.abs(first.getBoundingClientRect().left - edge) > 4) say("first column scrolls away in", box.getAttribute("aria-label"));
    box.scrollLeft = 0;
  };

  const checkDrawing = (svg) => {
    const { width } = svg.getBoundingClientRect(), size = 12 * width / svg.viewBox.baseVal.width;
    if (width > svg.parentElement.clientWidth + 1) say("drawing of", width, "px is wider than its frame");
    if (size < MIN_DRAWN_TEXT) say("text of", size.toFixed(1), "px in a drawing");
  };

  const checkCards = (list) => {
    const rows = new Map();
    for (const card of list.children) rows.set(card.offsetTop, (rows.get(card.offsetTop) ?? 0) + 1);
    const inRows = [...rows.values()];
    if (Math.max(...inRows) > 2 && inRows.at(-1) === 1) say("a card is alone in its row:", inRows.join(", "));
  };

  const settled = () => new Promise((resolve) => { setTimeout(resolve, 400); });
  const height = () => document.documentElement.scrollHeight;
  let before;
  addEventListener("DOMContentLoaded", () => { before = height(); });
  addEventListener("load", async () => {
    await loaded.catch(() => {});
    renderAll();
    await settled();
    if (Math.abs(height() - before) > TOLERANCE) say("the page changes its height from", before, "to", height(), "px");
    document.querySelectorAll("details").forEach((details) => { details.open = true; });
    renderAll();
    await settled();
    const main = document.querySelector("main");
    if (document.documentElement.scrollWidth > innerWidth) say("the page is", document.documentElement.scrollWidth, "px wide");
    checkTexts();
    entries.forEach(checkChart);
    document.querySelectorAll(".scroll").forEach(checkScroll);
    document.querySelectorAll(".drawing svg").forEach(checkDrawing);
    document.querySelectorAll(".cards").forEach(checkCards);
    window.found = {
      width: innerWidth,
      dark: matchMedia("(prefers-color-scheme: dark)").matches,
      charts: [...entries.values()].map(({ model, plot }) => ({
        title: model.title, lines: plot._fullData?.map(({ name, y }) => ({ name, y: [...(y ?? [])].slice(0, 8) })) ?? [],
      })),
      tables: main.querySelectorAll("table").length,
      text: main.innerText,
      problems,
    };
  });
})();
