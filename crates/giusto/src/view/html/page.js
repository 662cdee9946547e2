"use strict";
// Builds the page from the JSON model. Every text enters the document as text; only the parts between backticks become <code>.

const page = JSON.parse(document.getElementById("page").textContent);
const recordElement = document.getElementById("record");
let record = recordElement ? JSON.parse(recordElement.textContent) : null;
const main = document.querySelector("main");

// Cells of words with more characters get room for a sentence, shorter ones are not broken.
const LONG_CELL = 48, SHORT_CELL = 28;
// Tables with more columns scroll on a narrow screen; the others become lists.
const MAX_LIST_COLUMNS = 5;

const TONES = { good: ["✓", "good: "], fair: ["△", "could be better: "], bad: ["✗", "bad: "] };

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value != null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
};

const draw = (tag, attributes, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

// A name such as gcc:libwebrtc+giusto may be broken at its signs.
const breakable = (text) => text.split(/(?<=\w:)(?=\w)|(?<=\w)(?=\+)/).flatMap((part, index) => (index ? [make("wbr"), part] : part));
const words = (text) => text.split("`").flatMap((part, index) => (index % 2 ? make("code", {}, part) : breakable(part)));

const toned = (text, tone) => {
  if (!TONES[tone]) return words(text);
  const [sign, word] = TONES[tone];
  const mark = make("span", { class: "sign", "aria-hidden": "true" }, sign);
  return [make("span", { class: tone }, mark, " ", make("span", { class: "hidden" }, word), ...words(text))];
};

let headings = 0;
const heading = (text) => make("h2", { id: `part${++headings}` }, text);

const context = document.createElement("canvas").getContext("2d");
let family;
const textWidth = (text, size) => {
  family ??= getComputedStyle(document.body).fontFamily;
  context.font = `${size}px ${family}`;
  return context.measureText(text).width;
};

// Calls `resized` with each element whose size changes, in the next frame: what changes the layout must not run in the observer.
// An element that is new on the page is measured before it is painted, so that nothing jumps.
const unmeasured = [];
const sizeObserver = (resized) => {
  const observer = new ResizeObserver((changes) => requestAnimationFrame(() => changes.forEach(({ target }) => resized(target))));
  return {
    observe: (target) => { unmeasured.push(() => resized(target)); observer.observe(target); },
    unobserve: (target) => observer.unobserve(target),
  };
};
const measure = () => unmeasured.splice(0).forEach((size) => size());

// A box that scrolls sideways has a hint.
const overflowWatcher = sizeObserver((target) => {
  const box = target.closest(".scroll");
  box.classList.remove("tight", "overflows");
  // First the words of the first column are broken.
  for (const style of ["tight", "overflows"]) box.classList.toggle(style, box.scrollWidth > box.clientWidth + 1);
});
const scrollBox = (content, label) => {
  const box = make("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, content);
  overflowWatcher.observe(box);
  overflowWatcher.observe(content);
  return make("div", {}, box, make("p", { class: "hint", "aria-hidden": "true" }, "Scroll sideways to see all of it →"));
};

// As few rows of cards as fit, with about equally many in each.
const CARD_WIDTH = 230;
const cards = (content) => {
  const list = make("dl", { class: "cards", "aria-label": "Key figures" }, ...content.map((card) => make(
    "div", { class: "card sheet" },
    make("dt", {}, card.label),
    make("dd", { class: "value" }, ...toned(card.value, card.tone)),
    make("dd", { class: "note" }, card.note),
  )));
  sizeObserver(() => {
    if (!list.clientWidth) return;
    const rows = Math.ceil(content.length / Math.max(Math.floor(list.clientWidth / CARD_WIDTH), 2));
    list.style.setProperty("--columns", Math.ceil(content.length / rows));
  }).observe(list);
  return list;
};

// A cell without a value.
const EMPTY = /^[–/\s]*$/;

const cellClass = (column, text) => {
  if (column?.numeric) return "n";
  if (text.length <= SHORT_CELL) return "short";
  return text.length <= LONG_CELL ? null : "long";
};

const table = (content) => {
  const { title, caption, folded } = content;
  // A column without a value in any row is left out.
  const hasValues = (place) => place === 0 || !content.rows.length || content.rows.some((cells) => !EMPTY.test(cells[place]?.text ?? ""));
  const kept = (list) => list.filter((_, place) => hasValues(place));
  const columns = kept(content.columns), rows = content.rows.map(kept);
  const isList = columns.length <= MAX_LIST_COLUMNS;
  const head = columns.map(({ name, numeric }) => {
    const style = [numeric && "n", name.length > SHORT_CELL && "wide"].filter(Boolean).join(" ");
    return make("th", { scope: "col", class: style || null }, ...breakable(name));
  });
  const row = (cells) => make("tr", {}, ...cells.map((cell, place) => {
    const column = columns[place], first = place === 0;
    const attributes = { scope: first && "row", class: cellClass(column, cell.text), "data-name": columns.length > 2 && cell.text ? column?.name : null };
    const element = make(first ? "th" : "td", attributes, ...toned(cell.text, cell.tone));
    if (first) element.style.minWidth = `min(${cell.text.length}ch, 38vw, 17rem)`;
    return element;
  }));
  const grid = make(
    "table", { class: isList && "list" },
    make("caption", { class: "hidden" }, title),
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows.map(row)),
  );
  const description = caption && make("p", { class: "caption" }, ...words(caption));
  const box = scrollBox(grid, title);
  if (!folded) return make("section", { class: "sheet" }, heading(title), description || null, box);
  const summary = make("summary", {}, heading(title));
  return make("section", { class: "sheet" }, make("details", {}, summary, description || null, box));
};

const prose = ({ title, blocks }) => {
  const block = ({ kind, content }) => {
    if (kind === "code") return make("pre", {}, content);
    if (kind === "paragraph") return make("p", {}, ...words(content));
    return make("dl", { class: "terms" }, ...content.map(([term, meaning]) => (
      make("div", {}, make("dt", {}, term), make("dd", {}, ...words(meaning)))
    )));
  };
  return make("section", { class: "sheet" }, heading(title), ...blocks.map(block));
};

// The topology of a network: links as arrows, hosts in columns, or in rows where columns do not fit.
const drawing = (content) => {
  const frame = make("div", { class: "drawing" });
  const title = heading(content.title);
  const caption = make("figcaption", { class: "caption" }, ...words(content.caption));
  let drawn = 0;
  sizeObserver(() => {
    const width = frame.clientWidth;
    if (width && width !== drawn) frame.replaceChildren(topology(content, drawn = width));
  }).observe(frame);
  return make("figure", { class: "sheet", "aria-labelledby": title.id }, title, caption, frame);
};

const topology = ({ title, hosts, links }, available) => {
  const SIDE = 96, APART = 54, LINE = 15, RADIUS = 8, COLUMN = 230, ROW = 108, SLOT = 150, MAX_LABELS = 20, MAX_LINES = 4;
  const columns = [];
  hosts.forEach((host, index) => (columns[host.column] ??= []).push(index));
  const wide = 2 * SIDE + COLUMN * (columns.length - 1), upright = wide > available;
  const tallest = Math.max(1, ...columns.map((column) => column.length));
  const lines = Math.max(0, ...hosts.map((host) => Math.min(host.lines.length, MAX_LINES)));
  const apart = Math.max(APART, 34 + LINE * lines);
  const top = LINE * (tallest === 1 ? 5 : 2.6), bottom = LINE * (tallest === 1 ? 5 : lines + 1.5);
  const width = upright ? Math.max(available, tallest > 1 ? SLOT * tallest : 0) : Math.min(available, 1140);
  const height = upright ? ROW * (columns.length - 1) + LINE * (lines + 3) : top + apart * (tallest - 1) + bottom;
  const crowd = (index) => columns[hosts[index].column].length;
  const place = (index) => {
    const { column } = hosts[index];
    const row = columns[column].indexOf(index) + (tallest - crowd(index)) / 2;
    if (upright) return [width * (row + 0.42) / tallest, LINE * 1.5 + ROW * column];
    const x = columns.length < 2 ? width / 2 : SIDE + (width - 2 * SIDE) * column / (columns.length - 1);
    return [x, top + apart * row];
  };
  const shapes = [], texts = [];
  // Beside a point, or, with `side` 0, above or below it.
  const text = (x, y, size, style, content, side = 0) => {
    const length = textWidth(content, size);
    const left = Math.min(Math.max(x + side * length / 2, length / 2 + 2), width - length / 2 - 2);
    texts.push(draw("text", { class: style, x: left, y, "font-size": size, "text-anchor": "middle" }, content));
  };
  links.forEach((link, index) => {
    const [x0, y0] = place(link.from), [x1, y1] = place(link.to);
    const back = links.findIndex((other) => other.from === link.to && other.to === link.from);
    const distance = Math.abs(hosts[link.from].column - hosts[link.to].column);
    // The two directions of a link bend apart, and a link across a column bends around its hosts.
    const aside = distance > 1 ? 90 : back < 0 ? 0 : 22;
    const length = Math.max(Math.hypot(x1 - x0, y1 - y0), 1);
    const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length], gap = RADIUS + 4;
    const from = [x0 + ux * gap, y0 + uy * gap], to = [x1 - ux * gap, y1 - uy * gap];
    const bend = [(x0 + x1) / 2 + uy * aside, (y0 + y1) / 2 - ux * aside];
    const size = link.busy ? 11 : 8;
    const tip = Math.max(Math.hypot(to[0] - bend[0], to[1] - bend[1]), 1);
    const [tx, ty] = [(to[0] - bend[0]) / tip, (to[1] - bend[1]) / tip];
    const neck = [to[0] - tx * size, to[1] - ty * size], half = size * 0.45;
    shapes.push(
      draw("path", { class: link.busy ? "link busy" : "link", d: `M${from}Q${bend} ${neck}` }),
      draw("path", {
        class: link.busy ? "busy-tip" : "tip",
        d: `M${to}L${neck[0] - ty * half},${neck[1] + tx * half}L${neck[0] + ty * half},${neck[1] - tx * half}Z`,
      }),
    );
    // The opposite direction is labelled only if packets were queued there.
    if (!link.busy && (links.length > MAX_LABELS || (back >= 0 && back < index))) return;
    const crowds = [crowd(link.from), crowd(link.to)];
    const t = crowds[0] > crowds[1] ? 0.36 : crowds[0] < crowds[1] ? 0.64 : 0.5;
    const at = (axis) => (1 - t) ** 2 * from[axis] + 2 * t * (1 - t) * bend[axis] + t ** 2 * to[axis];
    const alone = Math.max(...crowds) === 1;
    const label = (alone || upright ? link.label : [link.label.slice(0, 2).join(", ")]).filter(Boolean);
    const above = to[0] >= from[0], side = to[1] >= from[1] ? 1 : -1;
    label.forEach((line, row) => {
      if (upright) {
        text(at(0) + side * 8, at(1) + (row + 0.8 - label.length / 2) * LINE, 12, "detail", line, side);
        return;
      }
      const rows = above ? row + 1 - label.length : row + 1;
      text(at(0), at(1) + (above ? -6 : 2) + rows * LINE, 12, "detail", line);
    });
  });
  hosts.forEach((host, index) => {
    const [x, y] = place(index);
    shapes.push(draw("circle", { class: "host", cx: x, cy: y, r: RADIUS }));
    const side = upright ? -1 : 0, [left, below] = upright ? [x - RADIUS - 8, y + 5] : [x, y + RADIUS];
    text(left, upright ? y + 5 : y - RADIUS - 7, 14, "name", host.name, side);
    host.lines.slice(0, MAX_LINES).forEach((line, row) => {
      const more = row + 1 === MAX_LINES && host.lines.length > MAX_LINES;
      text(left, below + LINE * (row + 1), 12, "detail", more ? `and ${host.lines.length - row} more` : line, side);
    });
  });
  const inWords = links.slice(0, MAX_LABELS).map((link) => (
    `${hosts[link.from].name} to ${hosts[link.to].name} (${link.label.join(", ")})`
  ));
  const attributes = { width: Math.min(width, available), viewBox: `0 0 ${width} ${height}`, role: "img" };
  return draw("svg", { ...attributes, "aria-label": `${title}: ${inWords.join("; ")}` }, ...shapes, ...texts);
};

// Stops of the colours of a map, from low to high (viridis).
const MAP_STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const MAP_RANGE = [-6, 20];
const mapColour = (value) => {
  const [low, high] = MAP_RANGE;
  const place = Math.min(Math.max((value - low) / (high - low), 0), 1) * (MAP_STOPS.length - 1);
  const stop = Math.min(Math.floor(place), MAP_STOPS.length - 2);
  const mixed = MAP_STOPS[stop].map((from, part) => Math.round(from + (MAP_STOPS[stop + 1][part] - from) * (place - stop)));
  return `rgb(${mixed})`;
};

// A map of cells: SINR by colour, borders, paths of users and handovers.
const map = (content) => {
  const title = heading(content.title);
  const caption = make("figcaption", { class: "caption" }, ...words(content.caption));
  const frame = make("div", { class: "map" });
  const found = make("output", { class: "found" }, "\u00a0");
  const key = (shape, name) => make("span", {}, draw("svg", { width: 26, height: 12, "aria-hidden": "true" }, ...shape), name);
  const line = (style) => draw("path", { class: style, d: "M1,6H25" });
  const legend = make(
    "div", { class: "legend" },
    key([line("casing"), line("path")], "path of a call"),
    content.paths.some(({ chosen }) => chosen) ? key([line("casing chosen"), line("path chosen")], "the call shown over time") : null,
    content.handovers.length ? key([draw("circle", { class: "handover", cx: 13, cy: 6, r: 4 })], "handover") : null,
  );
  let drawn = 0;
  sizeObserver(() => {
    const width = frame.clientWidth;
    if (width && width !== drawn) frame.replaceChildren(mapOf(content, drawn = width, found));
  }).observe(frame);
  return make("figure", { class: "sheet", "aria-labelledby": title.id }, title, caption, frame, mapScale(), found, legend);
};

const mapScale = () => {
  const [low, high] = MAP_RANGE, count = 52, ticks = [-5, 0, 5, 10, 15, 20];
  const at = (value) => 300 * (value - low) / (high - low);
  const boxes = Array.from({ length: count }, (_, index) => draw("rect", {
    x: 300 * index / count, y: 0, width: 300 / count + 0.5, height: 10, fill: mapColour(low + (high - low) * (index + 0.5) / count),
  }));
  const texts = ticks.map((tick) => draw("text", { x: at(tick), y: 24, "text-anchor": "middle" }, tick === 20 ? "20 dB" : String(tick).replace("-", "−")));
  return draw("svg", { class: "map-scale", viewBox: "-8 0 330 28", width: 330, role: "img", "aria-label": "SINR from -6 to 20 dB" }, ...boxes, ...texts);
};

const mapOf = ({ title, step_m: step, origin: [west, south], sinr_db: levels, cells, sites, middles, paths, handovers }, available, found) => {
  const rows = levels.length, columns = levels[0]?.length ?? 0, MARGIN = 6;
  const scale = Math.min((available - 2 * MARGIN) / (columns * step), 900 / (rows * step));
  const width = columns * step * scale + 2 * MARGIN, height = rows * step * scale + 2 * MARGIN;
  const small = width < 600;
  // A point of the grid is the middle of its square.
  const edge = (column, row) => [column * step * scale + MARGIN, height - MARGIN - row * step * scale].map((value) => value.toFixed(1));
  const place = ([x, y]) => [(x - west + step / 2) * scale + MARGIN, height - MARGIN - (y - south + step / 2) * scale].map((value) => value.toFixed(1));
  // The squares of a level are one shape, a stretch of a row at a time.
  const shapes = new Map();
  const add = (level, from, to, row) => {
    const [x0, y0] = edge(from, row + 1), [x1, y1] = edge(to, row);
    shapes.set(level, `${shapes.get(level) ?? ""}M${x0},${y0}H${x1}V${y1}H${x0}Z`);
  };
  levels.forEach((row, number) => {
    let from = 0;
    for (let column = 1; column <= row.length; column++) {
      if (row[column] === row[from]) continue;
      if (row[from] != null) add(row[from], from, column, number);
      from = column;
    }
  });
  let borders = "";
  cells.forEach((row, number) => row.forEach((cell, column) => {
    const right = row[column + 1], above = cells[number + 1]?.[column];
    if (cell == null) return;
    if (right != null && right !== cell) borders += `M${edge(column + 1, number)}L${edge(column + 1, number + 1)}`;
    if (above != null && above !== cell) borders += `M${edge(column, number + 1)}L${edge(column + 1, number + 1)}`;
  }));
  const parts = [...shapes].map(([level, d]) => draw("path", { d, fill: mapColour(level), "shape-rendering": "crispEdges" }));
  parts.push(draw("path", { class: "border", d: borders }));
  // The chosen path is above the others.
  const ordered = [...paths].sort((a, b) => a.chosen - b.chosen);
  ordered.forEach(({ name, parts: stretches, chosen }) => {
    const d = stretches.map((points) => `M${points.map((point) => place(point)).join("L")}${points.length < 2 ? "h.1" : ""}`).join("");
    const style = chosen ? " chosen" : "";
    parts.push(draw("path", { class: `casing${style}`, d }), draw("path", { class: `path${style}`, d }, draw("title", {}, name)));
  });
  handovers.forEach(({ at, text }) => {
    const [cx, cy] = place(at);
    parts.push(draw("circle", { class: "handover", cx, cy, r: small ? 2.2 : 3.4 }, draw("title", {}, text)));
  });
  sites.forEach((site) => {
    const [x, y] = place(site).map(Number), size = small ? 5 : 8;
    parts.push(draw("path", { class: "site", d: `M${x},${y - size}L${x + size},${y + size * 0.7}H${x - size}Z` }));
  });
  middles.forEach((middle, cell) => {
    const [x, y] = place(middle);
    parts.push(draw("text", { x, y, "font-size": small ? 10 : 13, "text-anchor": "middle", "dominant-baseline": "central" }, String(cell)));
  });
  const attributes = { width: width.toFixed(0), viewBox: `0 0 ${width.toFixed(0)} ${height.toFixed(0)}`, role: "img" };
  const label = `${title}: ${cells.length ? middles.length : 0} cells, ${paths.length} paths, ${handovers.length} handovers`;
  const picture = draw("svg", { ...attributes, "aria-label": label }, ...parts);
  picture.addEventListener("pointermove", ({ offsetX, offsetY }) => {
    const shrunk = width / picture.clientWidth;
    const column = Math.floor((offsetX * shrunk - MARGIN) / step / scale), row = Math.floor((height - MARGIN - offsetY * shrunk) / step / scale);
    const level = levels[row]?.[column];
    found.textContent = level == null ? "\u00a0" : `At the pointer: ${String(level).replace("-", "−")} dB, cell ${cells[row][column]}`;
  });
  return picture;
};

// Rows and columns of coloured cells, each a link.
const matrix = ({ title, caption, corner, columns, rows, dense, legend }) => {
  const cell = ({ text, level, about, link }) => make(
    "td", { class: `n level ${level}`, title: about }, link ? make("a", { href: link, "aria-label": about }, text) : text,
  );
  const row = ([name, cells]) => make("tr", {}, make("th", { scope: "row" }, ...breakable(name)), ...cells.map(cell));
  const grid = make(
    "table", { class: dense ? "matrix dense" : "matrix" },
    make("caption", { class: "hidden" }, title),
    make("thead", {}, make("tr", {}, make("td", { class: "n" }, corner), ...columns.map((name) => make(name ? "th" : "td", { scope: name && "col" }, make("span", {}, name))))),
    make("tbody", {}, ...rows.map(row)),
  );
  const key = ([level, text]) => make("span", {}, make("i", { class: `level ${level}` }), text);
  const box = scrollBox(grid, title);
  // The newest columns are the last.
  if (dense) requestAnimationFrame(() => { box.firstChild.scrollLeft = box.firstChild.scrollWidth; });
  return make("section", { class: "sheet" }, heading(title), make("p", { class: "caption" }, ...words(caption)), box, make("div", { class: "legend" }, ...legend.map(key)));
};

const links = ({ label, links: all }) => make(
  "nav", { class: "controls", "aria-label": label }, make("span", {}, label),
  ...all.map(([name, href, isHere]) => make("a", { href, "aria-current": isHere && "page" }, name)),
);

// A chart that would stand alone in its row fills it.
const closeGroup = (group) => {
  let alone = null;
  for (const figure of [...(group?.children ?? []), null]) {
    const isHalf = figure && !figure.classList.contains("full");
    if (isHalf) alone = alone ? null : figure;
    else { alone?.classList.add("full"); alone = null; }
  }
};

// The sections, drawn into `place`; returns the element of each.
const drawSections = (sections, place) => {
  const makers = { cards, table, prose, drawing, map, linked, matrix, links };
  let group = null;
  const drawn = sections.map(({ kind, content }) => {
    if (kind === "chart") {
      if (!group) place.append(group = make("div", { class: "charts" }));
      const figure = chartFigure(content);
      group.append(figure);
      return figure;
    }
    closeGroup(group);
    group = null;
    const element = makers[kind](content);
    place.append(element);
    return element;
  });
  closeGroup(group);
  measure();
  return drawn;
};

const build = () => {
  drawSections(page.sections, main);
  if (page.command) {
    main.append(make("section", { class: "sheet" }, heading("Run it again"), make("pre", {}, page.command)));
  }
  const note = nonce
    ? `Served by giusto ${page.version} to this machine alone. It loads nothing from elsewhere.`
    : `Written by giusto ${page.version}. This file holds everything it shows and loads nothing.`;
  main.append(make("footer", {}, make("p", {}, note)));
};
