/* Figures and data */

const MM = 96 / 25.4;
const FIGURE_WIDTHS = { "one column, 85 mm": 85, "two columns, 175 mm": 175 };
const FIGURE_FONT = 10.5;

// The chart as an SVG of this width, on white, as it is zoomed, with its units, and with its legend below.
const printed = async (entry, mm) => {
  const root = document.documentElement, width = Math.round(mm * MM), height = Math.round(Math.max(width * 0.45, 170));
  root.classList.add("paper");
  let figure, styles;
  try {
    styles = stylesOf(entry);
    figure = figureOf({ ...entry, plot: { clientWidth: width, clientHeight: height }, cursor: null, keyed: 0, styles });
    const { layout } = figure, ink = "#000000";
    const axis = { linecolor: ink, tickcolor: ink, ticks: "outside", ticklen: 3, tickfont: { color: ink }, showline: true };
    Object.assign(layout.xaxis, axis);
    Object.assign(layout.yaxis, axis);
    if (!isLabelled(entry.model)) layout.yaxis.title = { text: literal(entry.model.y.title), standoff: 6 };
    if (entry.cursor?.range) layout.xaxis.range = entry.cursor.range;
    Object.assign(layout, {
      width, height, paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff", margin: { l: 10, r: 8, t: 6, b: 6 },
      font: { family: "sans-serif", size: FIGURE_FONT, color: ink },
    });
  } finally {
    root.classList.remove("paper");
  }
  const drawn = await Plotly.toImage(figure, { format: "svg", width, height, imageDataOnly: true });
  const [legend, below] = printedLegend(entry, styles, width);
  legend.setAttribute("transform", `translate(0 ${height})`);
  const white = draw("rect", { width, height: height + below, fill: "#ffffff" });
  const written = (element) => new XMLSerializer().serializeToString(element);
  // As text: parsed here, its style attributes would fall under the policy of the page.
  const size = `width="${width}" height="${height + below}" viewBox="0 0 ${width} ${height + below}"`;
  const head = drawn.slice(0, drawn.indexOf(">")).replace(/ (width|height|viewBox)="[^"]*"/g, "");
  const rest = drawn.slice(drawn.indexOf(">") + 1, drawn.lastIndexOf("</svg>"));
  return `${head} ${size}>${written(white)}${rest}${written(legend)}</svg>`;
};

// Rows of names with their signs, and the height of all rows.
const printedLegend = ({ model, hidden }, styles, width) => {
  const LINE = 16, SIGN = 30, APART = 14, MARGIN = 8;
  const named = (items, own) => items.map((item, index) => ({ name: item.name ?? item.at?.[1], style: own[index], index }));
  const items = [...named(model.series, styles.series).filter(({ index }) => !hidden.has(index)), ...named(model.marks, styles.marks)];
  const group = draw("g", {});
  let x = MARGIN, y = 2;
  for (const { name, style } of items.filter(({ name: own }) => own)) {
    const length = SIGN + textWidth(name, FIGURE_FONT);
    if (x > MARGIN && x + length > width - MARGIN) { x = MARGIN; y += LINE; }
    const sign = swatch(style);
    sign.setAttribute("x", x);
    sign.setAttribute("y", y);
    group.append(sign, draw("text", { x: x + SIGN, y: y + 10, "font-family": "sans-serif", "font-size": FIGURE_FONT }, name));
    x += length + APART;
  }
  return [group, group.childNodes.length ? y + LINE + 2 : 0];
};

const saveFigure = async (entry, mm, format) => {
  const svg = await printed(entry, mm);
  const name = `${nameOf(state.sides[0])}-${entry.model.title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
  if (format === "pdf") await printAlone(svg, mm);
  else if (format === "png") download(`${name}.png`, "image/png", await pixels(svg));
  else download(`${name}.svg`, "image/svg+xml", svg);
};

// The drawing as an image, which takes its style attributes out of the policy of the page.
const imageOf = async (svg) => {
  const image = make("img", { src: URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })), alt: "" });
  await image.decode();
  return image;
};

// At 300 dots per inch.
const pixels = async (svg) => {
  const DENSITY = 300 / 96;
  const image = await imageOf(svg);
  const canvas = make("canvas", {});
  canvas.width = Math.round(image.naturalWidth * DENSITY);
  canvas.height = Math.round(image.naturalHeight * DENSITY);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => blob ? resolve(blob) : reject(new Error("this browser cannot write a PNG: save an SVG")), "image/png");
  });
};

// The browser's own printing writes a PDF with embedded fonts.
const printAlone = async (svg, mm) => {
  const sheet = make("div", { class: "print-alone" });
  const image = await imageOf(svg);
  image.style.width = `${mm}mm`;
  sheet.append(image);
  document.body.append(sheet);
  document.body.classList.add("printing-alone");
  addEventListener("afterprint", () => {
    document.body.classList.remove("printing-alone");
    URL.revokeObjectURL(image.src);
    sheet.remove();
  }, { once: true });
  print();
};

const openFigures = () => {
  const charts = [...entries.values()].filter(({ fresh }) => !fresh);
  const choice = make("select", { id: "figure" }, ...charts.map(({ model }) => make("option", {}, model.title)));
  const width = make("select", { id: "width" }, ...Object.keys(FIGURE_WIDTHS).map((name) => make("option", {}, name)));
  const failed = make("p", { class: "bad", role: "alert" });
  const save = (format) => button(format.toUpperCase(), async () => {
    try {
      await saveFigure(charts[choice.selectedIndex], FIGURE_WIDTHS[width.value], format);
      dialog.close();
    } catch (error) {
      failed.textContent = error.message;
    }
  }, { "data-format": format });
  const fonts = "PDF opens the print dialog of the browser, which embeds the fonts. PNG has 300 dots per inch. SVG names its font.";
  const dialog = make(
    "dialog", { class: "sheet figures", "aria-labelledby": "figures-title" },
    make("h2", { id: "figures-title" }, "Save figure"),
    make("div", { class: "control choice" }, make("label", { for: "figure" }, "chart"), choice),
    make("div", { class: "control choice" }, make("label", { for: "width" }, "width"), width),
    make("p", { class: "caption" }, fonts), failed,
    make("div", { class: "tools" }, save("svg"), save("png"), save("pdf"), button("Close", () => dialog.close())),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
};

// The timeline of runs as a table: a row for each window of each flow or link, a column for each series.
const csvOf = (runs) => {
  const tables = [];
  for (const [name, run] of runs) {
    const { flows, links } = run.timeline, times = run.timeline.t_s ?? runs[0][1].timeline.t_s;
    for (const [of, own] of [...flows.map((own) => ["flow", own]), ...links.map((own) => ["link", own])]) {
      const series = Object.entries({ ...own, ...own.media }).filter(([, values]) => Array.isArray(values) && values.length === times.length && typeof (values.find((value) => value != null) ?? 0) === "number");
      if (series.length) tables.push({ name, of, id: own.id, times, series: Object.fromEntries(series) });
    }
  }
  const columns = [...new Set(tables.flatMap(({ series }) => Object.keys(series)))];
  const quoted = (value) => (value == null ? "" : /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  const rows = tables.flatMap(({ name, of, id, times, series }) => times.map((at, window) => [name, of, id, at, ...columns.map((column) => series[column]?.[window])]));
  return [["run", "of", "id", "t_s", ...columns], ...rows].map((row) => `${row.map(quoted).join(",")}\n`).join("");
};
const saveData = (format, runs) => {
  const name = `${nameOf(state.sides[0])}.${format}`;
  if (format === "csv") download(name, "text/csv", csvOf(runs));
  else download(name, "application/json", JSON.stringify(runs.length === 1 ? runs[0][1] : Object.fromEntries(runs)));
};
const dataButtons = (runs) => ["csv", "json"].map((format) => button(`Save ${format.toUpperCase()}`, () => saveData(format, runs()), { "data-format": format }));
const dataTools = () => Object.fromEntries(dataButtons(() => (record.runs ?? []).map((own) => [own.controller, own])).map((own) => [own.dataset.format, own]));
