// The charts: from the model to figures of the chart library, with legends of our own beside them.

// Colours are custom properties of the style sheet: --series-0 and so on, --mark-0 and --mark-1.
const COLOURS = 10, MARK_COLOURS = 2;
const DASHES = ["solid", "9px,4px", "2px,3px", "9px,3px,2px,3px", "16px,4px", "16px,4px,2px,4px"];
const FULL_SYMBOLS = ["circle", "diamond", "square", "triangle-up", "cross", "x"];
const SYMBOLS = [...FULL_SYMBOLS, ...FULL_SYMBOLS.map((name) => `${name}-open`)];
const PATTERNS = ["", "/", ".", "-", "x", "|", "\\", "+"];
// Charts of labelled values with more of them fill the width of the page.
const MAX_LABELLED = 6;
// Dashes of a line through more points look like noise.
const MAX_DASHED = 250;
const FONT = 12;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const coarse = matchMedia("(pointer: coarse)").matches;
const library = document.getElementById("chart-library");
// A served page allows scripts by nonce only.
const { nonce } = document.currentScript;

// The chart library reads a small markup in its texts: this makes a text mean itself.
const literal = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("\n", "<br>");

// Breaks a text into lines that are at most `most` pixels wide.
const wrapped = (text, most) => text.split("\n").flatMap((part) => {
  const lines = [""];
  for (const word of part.split(/(?<=[ ,/:-])|(?=\+)/)) {
    const joined = lines.at(-1) + word;
    if (lines.at(-1) === "" || textWidth(joined.trimEnd(), FONT) <= most) lines[lines.length - 1] = joined;
    else lines.push(word);
    while (textWidth(lines.at(-1), FONT) > most && lines.at(-1).length > 4) {
      let end = lines.at(-1).length - 1;
      while (end > 4 && textWidth(lines.at(-1).slice(0, end), FONT) > most) end -= 1;
      lines.push(lines.at(-1).slice(end));
      lines[lines.length - 2] = lines.at(-2).slice(0, end);
    }
  }
  return lines.map((line) => line.trimEnd());
});

// The array at a JSON pointer (RFC 6901) into the record.
const inRecord = (pointer) => {
  const keys = pointer.split("/").slice(1).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  const found = keys.reduce((value, key) => value?.[key], record);
  if (!Array.isArray(found)) throw new Error(`no array at ${pointer} in the record of this page`);
  return found;
};
// Leaves out stretches of at most five missing values, over which a line goes on.
const withoutShortGaps = ({ x, y }) => {
  const MAX = 5, kept = [];
  let missing = [];
  y.forEach((value, place) => {
    if (value == null) { missing.push(place); return; }
    kept.push(...(missing.length > MAX ? missing : []), place);
    missing = [];
  });
  return { x: kept.map((place) => x[place]), y: kept.map((place) => y[place]) };
};
// Inline points hold until the next; those of the record stand in the middle of their windows.
const coordinates = (points) => {
  if (Array.isArray(points.x)) return { holds: "hv", ...points };
  const { x, y, scale, gaps } = points;
  const missing = gaps === "zero" ? 0 : null;
  const found = { x: inRecord(x), y: inRecord(y).map((value) => (value == null ? missing : value * scale)), holds: "hvh" };
  return gaps === "bridge_short" ? { ...found, ...withoutShortGaps(found) } : { ...found, connectgaps: gaps === "bridge" };
};

const PREFIXES = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"]];
const PREFIXED = ["bit/s", "B", "s"];

// The chart with its points at hand, and its values in the unit with the prefix that fits the largest of them.
const resolved = (chart) => {
  if (chart.y.factor) return chart;
  const points = chart.series.map((own) => own.points && coordinates(own.points));
  const bands = chart.series.map(({ low, high }) => low && [coordinates(low), coordinates(high)]);
  const values = chart.series.flatMap(({ events }, index) => (
    points[index]?.y ?? bands[index]?.[1].y ?? events?.map(({ y }) => y) ?? []
  ));
  const most = values.reduce((high, value) => Math.max(high, value ?? 0), 0);
  const { unit, ...y } = chart.y;
  const [factor, prefix] = (PREFIXED.includes(unit) && PREFIXES.find(([size]) => most >= size)) || [unit === "ratio" ? 0.01 : 1, ""];
  const shown = unit === "ratio" ? "%" : prefix + unit;
  const scaled = (value) => (value == null ? value : value / factor);
  return {
    ...chart,
    series: chart.series.map((own, index) => ({
      ...own,
      points: points[index] && { ...points[index], y: points[index].y.map(scaled) },
      band: bands[index] && { x: bands[index][0].x, ends: bands[index].map(({ y }) => y.map(scaled)) },
      events: own.events?.map((event) => ({ ...event, y: scaled(event.y) })),
    })),
    marks: chart.marks.map(({ axis, at: [value, name] }) => ({ axis, at: [axis === "y" ? scaled(value) : value, name] })),
    y: { ...y, factor, title: unit ? `${y.title} (${shown})` : y.title, range: y.range?.map(scaled) },
  };
};

const isLabelled = (chart) => chart.series.some(({ kind }) => kind === "bars" || kind === "estimates");
const labelsOf = (chart) => [...new Set(chart.series.flatMap((series) => (series.bars ?? series.estimates).map(([label]) => label)))];

// Each series has a colour of its own, and beyond ten series a colour and a dash (or symbol, or pattern) of its own.
const stylesOf = ({ model: chart, keyed }) => {
  const dense = keyed || chart.dense || chart.series.some(({ kind, points }) => kind === "line" && points.y.length > MAX_DASHED);
  let coloured = 0, bounds = 0, events = 0;
  const bound = () => ({
    colour: css(`--mark-${bounds % MARK_COLOURS}`), dash: DASHES[1 + bounds++ % (DASHES.length - 1)], width: 1.8,
  });
  const style = (kind) => {
    if (kind === "limit") return bound();
    const index = coloured++, round = Math.floor(index / COLOURS);
    const colour = css(`--series-${index % COLOURS}`);
    if (kind === "bars") return { colour, pattern: PATTERNS[(index + round) % PATTERNS.length] };
    if (kind === "events") return { colour, symbol: SYMBOLS[events++ % SYMBOLS.length] };
    if (kind === "estimates") return { colour, symbol: SYMBOLS[(index + round) % SYMBOLS.length] };
    if (kind === "stacked") return { colour, area: true };
    return { colour, dash: DASHES[(dense ? round : index + round) % DASHES.length], width: dense ? 1.6 : 2 };
  };
  const series = [];
  chart.series.forEach(({ kind, of }) => series.push(kind === "band" ? { colour: series[of].colour } : style(kind)));
  return { series, marks: chart.marks.map(bound) };
};

// The outline of a band: along its upper end and back along its lower one, for each stretch without missing values.
const outline = ({ x, ends: [low, high] }) => {
  const found = { x: [], y: [] };
  let stretch = [];
  const close = () => {
    const back = [...stretch].reverse();
    found.x.push(...stretch.map((place) => x[place]), ...back.map((place) => x[place]), null);
    found.y.push(...stretch.map((place) => high[place]), ...back.map((place) => low[place]), null);
    stretch = [];
  };
  x.forEach((_, place) => {
    if (low[place] != null && high[place] != null) stretch.push(place);
    else if (stretch.length) close();
  });
  if (stretch.length) close();
  return found;
};

// Corners of the steps of a histogram. An empty class stays below one, so that a logarithmic axis can show that it is empty.
const corners = (classes) => {
  const EMPTY = 0.1, x = [], y = [];
  const corner = (at, count) => { x.push(at); y.push(count || EMPTY); };
  classes.forEach(([low, , count], index) => {
    const end = classes[index - 1]?.[1];
    if (end === undefined) corner(low, 0);
    else if (end < low) corner(end, 0);
    corner(low, count);
  });
  if (classes.length) corner(classes.at(-1)[1], 0);
  return { x, y };
};

const traceOf = (series, style, keyed, layout) => {
  const name = literal(series.name ?? "");
  const line = { color: style.colour, width: style.width, dash: style.dash };
  const quiet = keyed ? { hoverinfo: "none" } : {};
  const { holds: shape, ...points } = series.points ?? {};
  const base = { type: "scatter", mode: "lines", name, ...quiet, ...points };
  switch (series.kind) {
    case "line":
      return { ...base, line, mode: points.x.length < 2 ? "markers" : "lines", marker: { color: style.colour } };
    case "band":
      return {
        type: "scatter", mode: "lines", name: "", ...outline(series.band), hoverinfo: "skip",
        line: { width: 0 }, fill: "toself", fillcolor: style.colour, opacity: 0.22,
      };
    case "stacked":
      return { ...base, line: { color: style.colour, width: 0.8, shape }, stackgroup: "amounts" };
    case "limit":
      return { ...base, line: { ...line, shape }, ...(keyed && { hoverinfo: "skip" }) };
    case "steps":
      return { ...base, ...corners(series.classes), line: { ...line, width: 1.4, dash: "solid", shape: "hv" }, fill: "tozeroy" };
    case "events": {
      const marker = { color: style.colour, size: 8, symbol: style.symbol, opacity: 0.85, line: { width: 1.5, color: style.colour } };
      const hovertext = series.events.map(({ text }) => wrapped(text, Math.min(layout.width * 0.7, 460)).map(literal).join("<br>"));
      const at = { x: series.events.map((event) => event.x), y: series.events.map((event) => event.y) };
      return { ...base, ...at, mode: "markers", marker, hovertext, hoverinfo: "text" };
    }
    case "estimates": {
      const of = (place) => series.estimates.map((estimate) => estimate[place]);
      const values = of(1);
      const error = {
        type: "data", symmetric: false, color: style.colour, thickness: 1.6, width: 4,
        array: of(3).map((high, index) => high - values[index]), arrayminus: of(2).map((low, index) => values[index] - low),
      };
      const marker = { color: style.colour, size: 9, symbol: style.symbol };
      const labels = of(0).map((label) => layout.labels.get(label));
      return { ...base, x: values, y: labels, mode: "markers", orientation: "h", marker, error_x: error };
    }
    default: {
      const of = (place) => series.bars.map((bar) => bar[place]);
      const marker = { color: style.colour, pattern: { shape: style.pattern, solidity: 0.4, size: 6 } };
      const text = { text: of(2).map(literal), textposition: "outside", textangle: 0, cliponaxis: false, textfont: { color: css("--ink") } };
      const labels = of(0).map((label) => layout.labels.get(label));
      return { type: "bar", orientation: "h", name, x: of(1), y: labels, marker, ...text, hoverinfo: "text+name" };
    }
  }
};

// Room for one tick label, in pixels.
const TICK_WIDTH = 48, TICK_HEIGHT = 28;

// The powers of ten from half of the lowest to twice the highest value.
const powersBetween = (low, high) => {
  const first = Math.floor(Math.log10(low / 2)), last = Math.ceil(Math.log10(high * 2));
  return Array.from({ length: last - first + 1 }, (_, place) => 10 ** (first + place));
};

// Labelled multiples of powers of ten, about evenly spaced on a logarithmic axis.
const COARSE = [1, 2, 5], FINE = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];

const axisOf = (scale, extent, ticks) => {
  const axis = {
    title: { text: literal(scale.title), standoff: 8 }, automargin: true, zeroline: false, gridcolor: css("--grid"),
    linecolor: css("--line"), tickfont: { color: css("--soft") }, fixedrange: coarse, nticks: Math.max(3, Math.floor(ticks)),
  };
  const low = scale.range?.[0] ?? extent[0], high = scale.range?.[1] ?? extent[1];
  if (scale.logarithmic) {
    axis.type = "log";
    if (high > low * 20) axis.dtick = Math.ceil(Math.log10(high / low) / axis.nticks);
    // Plotly would label each multiple, which overlap at the upper end.
    else if (high > low * 1.5) axis.tickvals = (high > low * 4 ? COARSE : FINE).flatMap((digit) => powersBetween(low / digit, high / digit).map((power) => digit * power));
  }
  if (scale.from_zero) axis.rangemode = "tozero";
  if (scale.range) axis.range = scale.logarithmic ? scale.range.map(Math.log10) : scale.range;
  if (scale.ticks) {
    axis.tickvals = scale.ticks.map(([at]) => at);
    axis.ticktext = scale.ticks.map(([, text]) => literal(text));
  }
  return axis;
};

const extentOf = (values) => values.reduce(
  ([low, high], value) => (value == null || !(value > 0) ? [low, high] : [Math.min(low, value), Math.max(high, value)]),
  [Infinity, 0],
);

// The range of the value axis that leaves room for the texts at the ends of the bars.
const barRange = (chart, width) => {
  const bars = chart.series.flatMap((series) => series.bars ?? []);
  const values = [...bars.map(([, length]) => length), ...chart.marks.map(({ at }) => at[0])].filter(Number.isFinite);
  if (!values.length) return undefined;
  const text = Math.max(...bars.map(([, , end]) => textWidth(end, FONT))) + 14;
  const share = Math.min(text / width, 0.75);
  const log = chart.y.logarithmic;
  const [lowest, highest] = [Math.min(...values), Math.max(...values)];
  const low = log ? Math.floor(Math.log10(lowest / 2)) : Math.min(lowest, 0);
  const high = log ? Math.log10(highest) : Math.max(highest, 0);
  const room = Math.max(high - low, 1e-9) * share / (1 - share);
  return [low < 0 && !log ? low - room : low, high + room];
};

const labelledLayout = (chart, layout) => {
  const labels = labelsOf(chart);
  const lines = labels.map((label) => wrapped(label, Math.min(layout.width * 0.3, 220)));
  layout.labels = new Map(labels.map((label, index) => [label, lines[index].map(literal).join("<br>")]));
  const left = Math.ceil(Math.max(0, ...lines.flat().map((line) => textWidth(line, FONT)))) + 12;
  const slots = chart.series.length * 18 + 14;
  const rows = lines.reduce((sum, lines) => sum + Math.max(slots, lines.length * 16 + 8), 0);
  layout.margin = { l: left, r: 12, t: 6, b: 46 };
  layout.height = Math.max(rows, 160) + layout.margin.t + layout.margin.b;
  const plotWidth = layout.width - left - layout.margin.r;
  const values = chart.series.flatMap((series) => (series.bars ?? series.estimates).map((entry) => entry[1]));
  const scale = { ...chart.y, range: chart.series.some(({ bars }) => bars) ? null : chart.y.range };
  const isBars = chart.series.some(({ bars }) => bars);
  const range = isBars ? barRange(chart, plotWidth) : undefined;
  const extent = range && chart.y.logarithmic ? range.map((power) => 10 ** power) : extentOf(values);
  layout.xaxis = { ...axisOf(scale, extent, plotWidth / TICK_WIDTH), automargin: false, fixedrange: true };
  if (range) layout.xaxis.range = range;
  const categories = labels.map((label) => layout.labels.get(label));
  layout.yaxis = {
    type: "category", categoryorder: "array", categoryarray: categories, autorange: "reversed", fixedrange: true,
    tickfont: { color: css("--ink") }, showgrid: false, linecolor: css("--line"), tickvals: categories,
  };
  Object.assign(layout, { bargap: 14 / slots, scattermode: "group", scattergap: 0.3, hovermode: "closest", dragmode: false });
};

// The points of a chart that have names.
const named = (chart) => chart.series.flatMap(({ events }) => events?.filter(({ label }) => label) ?? []);

// Where the names of points stand, in pixels from their points: as near as they cover neither each other, nor a point, nor the edge.
const placeNames = (points, width, height) => {
  const LINE = 14, GAP = 6, RADIUS = 5, RINGS = 30, DIRECTIONS = 24;
  const boxOf = (x, y, half, high) => ({ left: x - half, right: x + half, top: y - high, bottom: y + high });
  const taken = points.map(({ x, y }) => boxOf(x, y, RADIUS, RADIUS));
  const isFree = (box) => box.left >= 0 && box.right <= width && box.top >= 0 && box.bottom <= height
    && !taken.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom);
  const crowd = ({ x, y }) => points.filter((other) => Math.hypot(x - other.x, y - other.y) < 4 * LINE).length;
  const places = points.map(() => null);
  // Crowds last: the names around them have found their places.
  [...points.keys()].sort((a, b) => crowd(points[a]) - crowd(points[b])).forEach((index) => {
    const { x, y, name } = points[index], half = textWidth(name, FONT - 1) / 2 + 2, beside = half + GAP;
    const choices = [[beside, 0], [-beside, 0], [0, -LINE / 2 - GAP], [0, LINE / 2 + GAP]];
    for (let place = 0; place < RINGS * DIRECTIONS; place++) {
      const angle = 2 * Math.PI * place / DIRECTIONS, far = LINE * (1 + Math.floor(place / DIRECTIONS) / 2);
      const [across, down] = [Math.cos(angle), Math.sin(angle)];
      choices.push([across * (far + half), down * (far + LINE / 2)]);
    }
    const found = choices.findIndex(([dx, dy]) => isFree(boxOf(x + dx, y + dy, half, LINE / 2)));
    const [dx, dy] = choices[Math.max(found, 0)];
    taken.push(boxOf(x + dx, y + dy, half, LINE / 2));
    places[index] = { dx, dy, isFar: found > 3 };
  });
  return places;
};

// Writes the names of points into a chart, with a line to those that do not fit beside their points.
const nameEvents = (chart, layout) => {
  const events = named(chart), { l, r, t, b } = layout.margin = { l: 44, r: 12, t: 12, b: 46 };
  const [width, height] = [layout.width - l - r, layout.height - t - b];
  const scaled = [chart.x, chart.y].map(({ logarithmic }) => (value) => (logarithmic ? Math.log10(value) : value));
  const rangeOf = (axis, values) => {
    const [low, high] = [Math.min(...values.map(scaled[axis])), Math.max(...values.map(scaled[axis]))];
    const room = Math.max(high - low, 1e-6) * 0.06;
    return [low - room, high + room];
  };
  const marks = (axis) => chart.marks.filter((mark) => mark.axis === axis).map(({ at }) => at[0]);
  const ranges = [rangeOf(0, [...events.map(({ x }) => x), ...marks("x")]), rangeOf(1, [...events.map(({ y }) => y), ...marks("y")])];
  const share = (axis, value) => (scaled[axis](value) - ranges[axis][0]) / (ranges[axis][1] - ranges[axis][0]);
  const points = events.map(({ x, y, label }) => ({ name: label, x: share(0, x) * width, y: (1 - share(1, y)) * height }));
  Object.assign(layout.xaxis, { range: ranges[0], automargin: false, fixedrange: true });
  Object.assign(layout.yaxis, { range: ranges[1], automargin: false, fixedrange: true });
  layout.hovermode = "closest";
  layout.annotations = placeNames(points, width, height).map(({ dx, dy, isFar }, index) => ({
    x: scaled[0](events[index].x), y: scaled[1](events[index].y), text: literal(events[index].label),
    font: { color: css("--ink"), size: FONT - 1 }, xanchor: "center", yanchor: "middle", borderpad: 0, showarrow: isFar,
    ...(isFar ? { ax: dx, ay: dy, arrowhead: 0, arrowwidth: 1, arrowcolor: css("--soft"), standoff: 5 } : { xshift: dx, yshift: -dy }),
  }));
};

// A chart as a figure of the chart library, for the place that it has on the page.
const figureOf = ({ model: chart, plot, hidden, cursor, keyed, styles }) => {
  const narrow = plot.clientWidth < 520;
  const layout = {
    width: plot.clientWidth, height: plot.clientHeight, margin: { l: 10, r: 16, t: coarse ? 8 : 22, b: 10 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, uirevision: "keep",
    font: { family: getComputedStyle(document.body).fontFamily, size: FONT, color: css("--soft") },
    hoverlabel: { bgcolor: css("--sheet"), bordercolor: css("--line"), font: { color: css("--ink"), size: FONT }, namelength: narrow ? 18 : -1 },
    dragmode: coarse ? false : "zoom", hovermode: keyed ? "x" : "x unified", barmode: "group",
  };
  const labelled = isLabelled(chart);
  if (labelled) labelledLayout(chart, layout);
  const data = chart.series.map((series, index) => ({ ...traceOf(series, styles.series[index], keyed, layout), visible: !hidden.has(chart.series[index].of ?? index) }));
  if (!labelled) {
    const untitled = { ...chart.y, title: "" };
    layout.xaxis = axisOf(chart.x, extentOf(data.flatMap(({ x }) => x)), layout.width / TICK_WIDTH);
    layout.yaxis = axisOf(untitled, extentOf(data.flatMap(({ y }) => y)), layout.height / TICK_HEIGHT - 3);
  }
  if (named(chart).length) nameEvents(chart, layout);
  layout.shapes = chart.marks.map(({ axis, at: [value] }, index) => {
    const { colour, dash, width } = styles.marks[index];
    const upright = axis === "x" || labelled;
    const along = upright ? { x0: value, x1: value, yref: "paper", y0: 0, y1: 1 } : { y0: value, y1: value, xref: "paper", x0: 0, x1: 1 };
    return { type: "line", line: { color: colour, width, dash }, ...along };
  });
  if (cursor) {
    // The y axes of linked charts begin at the same x, however wide their numbers are.
    layout.margin.l = 52;
    layout.yaxis.automargin = false;
    const x = cursor.x();
    layout.shapes.unshift({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { color: css("--soft"), width: 1 } });
    if (cursor.range) layout.xaxis.range = cursor.range;
  }
  delete layout.labels;
  const config = {
    // The library offers to upload a chart unless these are set.
    showSendToCloud: false, plotlyServerURL: "",
    responsive: false, displaylogo: false, displayModeBar: coarse ? false : "hover", typesetMath: false,
    modeBarButtonsToRemove: ["zoom2d", "pan2d", "select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"],
  };
  return { data, layout, config };
};

let patterns = 0;
const swatch = ({ colour, dash, width, symbol, pattern, area }) => {
  const shapes = [];
  if (symbol) {
    const open = symbol.endsWith("-open");
    const path = {
      circle: "M13,2A4,4 0 1 1 12.9,2Z", diamond: "M13,1L18,6L13,11L8,6Z", square: "M9,2H17V10H9Z", "triangle-up": "M13,1L18,10H8Z",
      cross: "M11.5,1H14.5V4.5H18V7.5H14.5V11H11.5V7.5H8V4.5H11.5Z", x: "M9,3L10,2L13,5L16,2L17,3L14,6L17,9L16,10L13,7L10,10L9,9L12,6Z",
    }[symbol.replace("-open", "")];
    shapes.push(draw("path", { d: path, fill: open ? "none" : colour, stroke: colour, "stroke-width": 1.5 }));
  } else if (pattern !== undefined || area) {
    const strokes = { "/": "M0,6L6,0", "\\": "M0,0L6,6", x: "M0,6L6,0M0,0L6,6", "-": "M0,3H6", "|": "M3,0V6", "+": "M0,3H6M3,0V6", ".": "M2,3H4" };
    let fill = colour;
    if (pattern) {
      fill = `url(#pattern${++patterns})`;
      const stroke = draw("path", { d: strokes[pattern], stroke: colour, "stroke-width": 2 });
      shapes.push(draw("pattern", { id: `pattern${patterns}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, stroke));
    }
    shapes.push(draw("rect", { x: 4, y: 1, width: 18, height: 10, fill, "fill-opacity": area ? 0.6 : 1, stroke: colour }));
  } else {
    const dashes = dash === "solid" ? "none" : dash.replaceAll("px", "");
    shapes.push(draw("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: colour, "stroke-width": width, "stroke-dasharray": dashes }));
  }
  return draw("svg", { width: 26, height: 12, "aria-hidden": "true" }, ...shapes);
};

// The legend stands below the plot and takes no room from it. A name in it hides its series.
const legendOf = (entry) => {
  const { model: chart, styles, hidden, keyed } = entry;
  // The table has the key of the first lines of a keyed chart.
  const listed = ({ series: { name, kind }, index }) => name && (!keyed || index >= keyed || kind === "limit" || kind === "events");
  const series = chart.series.map((series, index) => ({ series, index })).filter(listed);
  const marks = chart.marks.map((mark, index) => ({ name: mark.at[1], style: styles.marks[index] })).filter(({ name }) => name);
  const alone = series.length === 1 && !marks.length && series[0].series.kind !== "limit" && series[0].series.kind !== "events";
  if (alone || series.length + marks.length === 0) return [];
  return [
    ...series.map(({ series, index }) => {
      const pressed = !hidden.has(index);
      const button = make("button", { type: "button", "aria-pressed": String(pressed) }, swatch(styles.series[index]), series.name);
      button.addEventListener("click", () => {
        if (hidden.has(index)) hidden.delete(index); else hidden.add(index);
        button.setAttribute("aria-pressed", String(!hidden.has(index)));
        render(entry);
      });
      return button;
    }),
    ...marks.map(({ name, style }) => make("span", {}, swatch(style), name)),
  ];
};

// The description of a chart for readers who cannot see it.
const described = (chart) => {
  const names = chart.series.map(({ name }) => name).filter(Boolean);
  const axes = chart.x.title && chart.y.title ? ` ${chart.y.title} over ${chart.x.title}.` : "";
  return `Chart: ${chart.title}. ${chart.caption}${axes}${names.length > 1 ? ` Series: ${names.join(", ")}.` : ""}`;
};

const entries = new Map();
let ready = false;

// Gives a chart its legend and its height, which the page has before the chart is drawn.
const prepare = (entry) => {
  if (entry.fresh) entry.model = resolved(entry.model);
  entry.fresh = false;
  if (entry.axisTitle) entry.axisTitle.textContent = entry.model.y.title;
  entry.styles = stylesOf(entry);
  // A legend that stays keeps the focus of its buttons.
  const key = JSON.stringify([entry.styles, entry.model.series.map(({ name }) => name)]);
  if (entry.key !== key) entry.legend.replaceChildren(...legendOf(entry));
  entry.key = key;
  if (!isLabelled(entry.model)) return;
  const layout = { width: entry.plot.clientWidth };
  labelledLayout(entry.model, layout);
  entry.plot.style.height = `${layout.height}px`;
};

const attempt = (entry, action) => {
  if (!entry.plot.clientWidth) return;
  try {
    action();
  } catch (error) {
    console.error(error);
    entry.plot.replaceChildren(make("p", {}, `This chart cannot be drawn: ${error.message}.`));
  }
};

const render = (entry) => {
  if (!ready) return;
  attempt(entry, () => {
    entry.width = entry.plot.clientWidth;
    prepare(entry);
    const { data, layout, config } = figureOf(entry);
    Plotly.react(entry.plot, data, layout, config);
    if (!entry.drawn) entry.onDrawn?.(entry);
    Object.assign(entry, { drawn: true, stale: false });
  });
};
const renderAll = () => entries.forEach(render);

// One after the other: the first is on the screen while the others are drawn.
const soon = [];
const renderNext = () => {
  const entry = soon.shift();
  if (entry && entries.get(entry.plot) === entry && entry.seen && (!entry.drawn || entry.stale)) render(entry);
  if (soon.length) setTimeout(renderNext);
};
const renderSoon = (entry) => {
  if (soon.push(entry) === 1) setTimeout(renderNext);
};

// Charts are drawn when they come near the window, and again when their width changes.
const nearby = new IntersectionObserver((changes) => changes.forEach(({ target, isIntersecting }) => {
  const entry = entries.get(target);
  // A page that shows another run has removed its charts.
  if (!entry) return;
  entry.seen = isIntersecting;
  if (isIntersecting && (!entry.drawn || entry.stale)) renderSoon(entry);
}), { rootMargin: "800px" });
const resized = sizeObserver((plot) => {
  const entry = entries.get(plot);
  if (entry && !entry.drawn) attempt(entry, () => prepare(entry));
  else if (entry && entry.width !== plot.clientWidth) render(entry);
});

const chartFigure = (model, { cursor, onDrawn, keyed } = {}) => {
  const title = heading(model.title);
  // It has buttons within.
  const plot = make("div", { class: "plot", role: "group", "aria-label": described(model) });
  const legend = make("div", { class: "legend" });
  const labelled = isLabelled(model);
  const wide = cursor || model.full_width || (labelled && labelsOf(model).length > MAX_LABELLED);
  const axisTitle = labelled || !model.y.title ? null : make("p", { class: "axis-title", "aria-hidden": "true" }, model.y.title);
  entries.set(plot, { model, plot, legend, axisTitle, cursor, onDrawn, keyed, hidden: new Set(), fresh: true, drawn: false, seen: false });
  nearby.observe(plot);
  resized.observe(plot);
  const style = `sheet${wide ? " full" : ""}${keyed ? " low" : ""}${labelled ? " labelled" : ""}${named(model).length ? " named" : ""}`;
  const caption = make("figcaption", { class: "caption" }, ...words(model.caption));
  return make("figure", { class: style, "aria-labelledby": title.id }, title, caption, axisTitle, plot, legend);
};

// Gives a chart on the page another model, which is drawn when the chart is.
const updateChart = (figure, model) => {
  const plot = figure.querySelector(".plot"), entry = entries.get(plot);
  figure.querySelector("h2").textContent = model.title;
  figure.querySelector("figcaption").replaceChildren(...words(model.caption));
  plot.setAttribute("aria-label", described(model));
  Object.assign(entry, { model, fresh: true, stale: true });
};

// The sign of a line in the table: the colour and the dash that the line has in dense charts.
const keyStyle = (number) => {
  const dashed = ["solid", "dashed", "dotted"][Math.min(Math.floor(number / COLOURS), 2)];
  return { borderTopColor: `var(--series-${number % COLOURS})`, borderTopStyle: dashed };
};

// How linked charts on the page show another model.
const updaters = new Map();

// The place of the value that is nearest to `x`, of sorted ones.
const nearestOf = (sorted, x) => {
  let [low, high] = [0, sorted.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= x) low = middle; else high = middle;
  }
  return x - sorted[low] <= sorted[high] - x ? low : high;
};
// Whether a run with windows in the middle of which these times are has not ended at `x`.
const reaches = (times, x) => x <= times.at(-1) + (times.at(-1) - (times.at(-2) ?? 0)) / 2;

// Charts over one x axis, and the table of the values at the cursor. The lines of the groups' charts have their key in the table.
const linked = (model) => {
  let lines, groups, step, models, positions;
  const read = (next) => {
    ({ lines, groups, step } = next);
    models = next.charts.map(resolved);
    positions = inRecord(next.x).filter((_, window) => window % step === 0);
  };
  read(model);
  const keyed = new Set(groups.flatMap((group) => group.charts));
  // Each line has times of its own: runs may have windows of other lengths, and short gaps are left out.
  const values = (chart) => models[chart].series.slice(0, lines.length).map(({ points }) => points ?? { x: [], y: [] });
  const nearest = (x) => Math.max(nearestOf(positions, x), 0);
  const peak = values(model.start_at).flatMap(({ x, y }) => y.map((value, window) => [value ?? 0, x[window]]))
    .reduce((high, own) => (own[0] > high[0] ? own : high), [0, 0]);
  const start = nearest(peak[1]);
  let place = start, waiting = false, zooming = false;
  const cursor = { x: () => positions[place], range: null };
  const all = () => [...entries.values()].filter((entry) => entry.cursor === cursor);
  const moment = make("output", {}, "–");
  const slider = make("input", { type: "range", min: 0, max: positions.length - 1, step: 1 });
  const choice = make("select", {}, ...groups.map(({ name }) => make("option", {}, name)));
  const group = () => groups[Math.max(choice.selectedIndex, 0)];
  const columns = group().charts.map(() => make("th", { scope: "col", class: "n" }));
  const rows = lines.map((line, number) => {
    const box = make("input", { type: "checkbox" });
    box.checked = true;
    const key = make("span", { class: "key" });
    Object.assign(key.style, keyStyle(number));
    box.addEventListener("change", () => all().filter((entry) => entry.keyed).forEach((entry) => {
      if (box.checked) entry.hidden.delete(number); else entry.hidden.add(number);
      if (entry.drawn) render(entry);
    }));
    const cells = columns.map(() => make("td", { class: "n" }));
    const text = make("td", { class: "decision" }), label = make("span", {}, line);
    return { cells, text, label, row: make("tr", {}, make("th", { scope: "row" }, make("label", {}, box, key, label)), ...cells, text) };
  });

  const ago = (seconds) => `${seconds < 9.995 ? seconds.toFixed(2) : seconds.toFixed(0)} s ago`;
  const show = () => {
    const x = positions[place];
    moment.textContent = `${x.toFixed(2)} s`;
    slider.value = place;
    slider.setAttribute("aria-valuetext", moment.textContent);
    group().charts.forEach((chart, column) => {
      const { title } = models[chart].y, decimals = title.endsWith("bit/s)") ? 3 : 1;
      columns[column].textContent = title;
      values(chart).forEach(({ x: times, y }, number) => {
        const cell = rows[number].cells[column], value = reaches(times, x) ? y[nearestOf(times, x)] : null;
        cell.dataset.unit = title;
        cell.textContent = value == null ? "–" : value.toFixed(decimals);
      });
    });
    group().decisions.forEach((decisions, number) => {
      const known = group().charts.length === 0 || reaches(models[group().charts[0]].series[number].points.x, x);
      const past = known ? decisions.filter((own) => own.x <= x) : [];
      const now = past.at(-1), decrease = past.findLast(({ lower }) => lower), { text } = rows[number];
      text.textContent = now ? `${ago(x - now.x)}: ${now.text}` : "–";
      if (decrease && decrease !== now) text.append(make("small", {}, `last decrease ${ago(x - decrease.x)}: ${decrease.text}`));
    });
  };
  const moveCursors = () => {
    waiting = false;
    const x = positions[place];
    all().filter((entry) => entry.drawn && entry.seen).forEach(({ plot }) => Plotly.relayout(plot, { "shapes[0].x0": x, "shapes[0].x1": x }));
  };
  const go = (to) => {
    place = Math.min(Math.max(to, 0), positions.length - 1);
    show();
    if (waiting || !ready) return;
    waiting = true;
    requestAnimationFrame(moveCursors);
  };
  const listen = ({ plot }) => {
    // A finger does not hover, it taps.
    for (const event of ["plotly_hover", "plotly_click"]) plot.on(event, ({ points }) => go(nearest(points[0].x)));
    plot.on("plotly_relayout", (change) => {
      if (zooming || !Object.keys(change).some((key) => key.startsWith("xaxis"))) return;
      zooming = true;
      cursor.range = [...plot.layout.xaxis.range];
      const others = all().filter((entry) => entry.drawn && entry.plot !== plot);
      const zoomed = others.map((other) => Plotly.relayout(other.plot, { "xaxis.range": cursor.range }));
      Promise.all(zoomed).finally(() => { zooming = false; });
    });
  };
  slider.addEventListener("input", () => go(Number(slider.value)));
  choice.addEventListener("change", show);
  // A page can be opened at a moment: report.html#t=12.5
  const asked = () => {
    const found = /^#t=([0-9.]+)$/.exec(location.hash);
    return found ? nearest(Number(found[1])) : start;
  };
  addEventListener("hashchange", () => go(asked()));
  if (positions.length) go(asked());

  const head = (name, style) => make("th", { scope: "col", class: style }, name);
  const grid = make(
    "table", {},
    make("thead", {}, make("tr", {}, head(model.of), ...columns, head("decision in force", "decision"))),
    make("tbody", {}, ...rows.map(({ row }) => row)),
  );
  const title = make("h2", { id: `part${++headings}` }, "At ", moment);
  const bar = make(
    "div", { class: "bar" }, title,
    make("label", { class: "slide" }, make("span", { class: "hidden" }, "moment"), slider),
    groups.length > 1 ? make("label", {}, "flow ", choice) : null,
  );
  const box = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values at the cursor" }, grid);
  // Flows without controllers have no decisions.
  const plain = model.of === "flow" && groups.every(({ decisions }) => decisions.every((own) => !own.length));
  if (plain) grid.querySelectorAll(".decision").forEach((cell) => cell.remove());
  const panel = make("section", { class: plain ? "sheet cursor plain" : "sheet cursor", "aria-labelledby": title.id }, bar, box);
  const charts = models.map((chart, index) => chartFigure(chart, { cursor, onDrawn: listen, keyed: keyed.has(index) && lines.length }));
  const element = make("div", { class: "linked" }, panel, make("div", { class: "charts" }, ...charts));
  // Shows another model with as many lines, groups and charts.
  updaters.set(element, (next) => {
    read(next);
    charts.forEach((figure, index) => updateChart(figure, models[index]));
    rows.forEach(({ label }, number) => { label.textContent = lines[number]; });
    slider.max = positions.length - 1;
    place = Math.min(place, positions.length - 1);
    show();
  });
  return element;
};

// The bytes of an element's text in base64. `Uint8Array.from` would take ten times as long.
const bytesOf = ({ textContent }) => {
  const text = atob(textContent), bytes = new Uint8Array(text.length);
  for (let place = 0; place < bytes.length; place++) bytes[place] = text.charCodeAt(place);
  return bytes;
};

const loadLibrary = async () => {
  const unpacked = new Blob([bytesOf(library)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = make("script", { nonce: nonce || null }, await new Response(unpacked).text());
  document.head.append(script);
  ready = true;
  entries.forEach((entry) => { if (entry.seen) renderSoon(entry); });
};

build();
const loaded = library ? loadLibrary() : Promise.resolve();
loaded.catch((error) => {
  console.error(error);
  const note = "The charts cannot be drawn: this browser cannot unpack the chart library. A browser from 2023 or later can.";
  entries.forEach(({ plot }) => plot.replaceChildren(make("p", {}, note)));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => entries.forEach((entry) => { if (entry.drawn) render(entry); }));
// Paper is white, and shows all charts.
addEventListener("beforeprint", () => { document.documentElement.classList.add("paper"); renderAll(); });
addEventListener("afterprint", () => { document.documentElement.classList.remove("paper"); renderAll(); });
