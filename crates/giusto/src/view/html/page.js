"use strict";
// Builds the page from the JSON model. Every text enters the document as text; only the parts between backticks become <code>.

const page = JSON.parse(document.getElementById("page").textContent);
const recordElement = document.getElementById("record");
const record = recordElement ? JSON.parse(recordElement.textContent) : null;
const main = document.querySelector("main");

// Cells of words with more characters get room for a sentence, shorter ones are not broken.
const LONG_CELL = 48, SHORT_CELL = 28;
// Tables of words with more columns scroll on a narrow screen; the others become lists.
const MOST_LIST_COLUMNS = 3;

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

const words = (text) => text.split("`").map((part, index) => (index % 2 ? make("code", {}, part) : part));

const toned = (text, tone) => {
  if (!TONES[tone]) return words(text);
  const [sign, word] = TONES[tone];
  const mark = make("span", { class: "sign", "aria-hidden": "true" }, sign);
  return [make("span", { class: tone }, mark, " ", make("span", { class: "hidden" }, word), ...words(text))];
};

let headings = 0;
const heading = (text) => make("h2", { id: `part${++headings}` }, text);

const context = document.createElement("canvas").getContext("2d");
const textWidth = (text, size) => {
  context.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return context.measureText(text).width;
};

// Calls `resized` with each element whose size changes, in the next frame: what changes the layout must not run in the observer.
const sizeObserver = (resized) => new ResizeObserver((changes) => requestAnimationFrame(() => (
  changes.forEach(({ target }) => resized(target))
)));

// A box that scrolls sideways says so.
const overflowWatcher = sizeObserver((target) => {
  const box = target.closest(".scroll");
  box.classList.toggle("overflows", box.scrollWidth > box.clientWidth + 1);
});
const scrollBox = (content, label) => {
  const box = make("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, content);
  overflowWatcher.observe(box);
  overflowWatcher.observe(content);
  return make("div", {}, box, make("p", { class: "hint", "aria-hidden": "true" }, "Scroll sideways to see all of it →"));
};

const cards = (content) => make("dl", { class: "cards", "aria-label": "Key figures" }, ...content.map((card) => make(
  "div", { class: "card sheet" },
  make("dt", {}, card.label),
  make("dd", { class: "value" }, ...toned(card.value, card.tone)),
  make("dd", { class: "note" }, card.note),
)));

const cellClass = (column, text) => {
  if (column?.numeric) return "n";
  if (text.length <= SHORT_CELL) return "short";
  return text.length <= LONG_CELL ? null : "long";
};

const table = (content) => {
  const { title, caption, columns, rows, folded } = content;
  const isList = columns.length <= MOST_LIST_COLUMNS && columns.every((column) => !column.numeric);
  const head = columns.map((column) => make("th", { scope: "col", class: column.numeric && "n" }, column.name));
  const row = (cells) => make("tr", {}, ...cells.map((cell, place) => {
    const { text, tone } = typeof cell === "string" ? { text: cell } : cell;
    const name = place === 0 ? "th" : "td";
    return make(name, { scope: place === 0 && "row", class: cellClass(columns[place], text) }, ...toned(text, tone));
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

// The topology of a network: hosts in columns, links as arrows.
const drawing = (content) => {
  const frame = make("div", { class: "drawing" });
  const box = scrollBox(frame, content.title);
  const title = heading(content.title);
  const caption = make("figcaption", { class: "caption" }, ...words(content.caption));
  let drawn = 0;
  sizeObserver(() => {
    const width = frame.clientWidth;
    if (width && width !== drawn) frame.replaceChildren(topology(content, drawn = width));
  }).observe(frame);
  return make("figure", { class: "sheet", "aria-labelledby": title.id }, title, caption, box);
};

const topology = ({ title, hosts, links }, available) => {
  const SIDE = 96, APART = 54, LINE = 15, RADIUS = 8, COLUMN = 230, MOST_LABELS = 20, MOST_LINES = 4;
  const columns = [];
  hosts.forEach((host, index) => (columns[host.column] ??= []).push(index));
  const width = Math.max(Math.min(available, 1140), 2 * SIDE + COLUMN * (columns.length - 1));
  const tallest = Math.max(1, ...columns.map((column) => column.length));
  const lines = Math.max(0, ...hosts.map((host) => Math.min(host.lines.length, MOST_LINES)));
  const apart = Math.max(APART, 34 + LINE * lines);
  const top = LINE * (tallest === 1 ? 5 : 2.6), bottom = LINE * (tallest === 1 ? 5 : lines + 1.5);
  const height = top + apart * (tallest - 1) + bottom;
  const crowd = (index) => columns[hosts[index].column].length;
  const place = (index) => {
    const { column } = hosts[index];
    const row = columns[column].indexOf(index) + (tallest - crowd(index)) / 2;
    const x = columns.length < 2 ? width / 2 : SIDE + (width - 2 * SIDE) * column / (columns.length - 1);
    return [x, top + apart * row];
  };
  const shapes = [], texts = [];
  const text = (x, y, size, style, content) => {
    const length = textWidth(content, size);
    const left = Math.min(Math.max(x, length / 2 + 2), width - length / 2 - 2);
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
    if (!link.busy && (links.length > MOST_LABELS || (back >= 0 && back < index))) return;
    const crowds = [crowd(link.from), crowd(link.to)];
    const t = crowds[0] > crowds[1] ? 0.36 : crowds[0] < crowds[1] ? 0.64 : 0.5;
    const at = (axis) => (1 - t) ** 2 * from[axis] + 2 * t * (1 - t) * bend[axis] + t ** 2 * to[axis];
    const alone = Math.max(...crowds) === 1;
    const label = alone ? link.label : [link.label.slice(0, 2).join(", ")];
    const above = to[0] >= from[0];
    label.filter(Boolean).forEach((line, row) => {
      const rows = above ? row + 1 - label.length : row + 1;
      text(at(0), at(1) + (above ? -6 : 2) + rows * LINE, 12, "detail", line);
    });
  });
  hosts.forEach((host, index) => {
    const [x, y] = place(index);
    shapes.push(draw("circle", { class: "host", cx: x, cy: y, r: RADIUS }));
    text(x, y - RADIUS - 7, 14, "name", host.name);
    host.lines.slice(0, MOST_LINES).forEach((line, row) => {
      const more = row + 1 === MOST_LINES && host.lines.length > MOST_LINES;
      text(x, y + RADIUS + LINE * (row + 1), 12, "detail", more ? `and ${host.lines.length - row} more` : line);
    });
  });
  const inWords = links.slice(0, MOST_LABELS).map((link) => (
    `${hosts[link.from].name} to ${hosts[link.to].name} (${link.label.join(", ")})`
  ));
  const attributes = { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" };
  return draw("svg", { ...attributes, "aria-label": `${title}: ${inWords.join("; ")}` }, ...shapes, ...texts);
};

// A chart that would stand alone in its row fills it.
const closeGroup = (group) => {
  let alone = null;
  for (const figure of [...(group?.children ?? []), null]) {
    const isHalf = figure && !figure.classList.contains("full");
    if (isHalf) alone = alone ? null : figure;
    else { alone?.classList.add("full"); alone = null; }
  }
};

const build = () => {
  const makers = { cards, table, prose, drawing, linked };
  let group = null;
  for (const { kind, content } of page.sections) {
    if (kind === "chart") {
      if (!group) main.append(group = make("div", { class: "charts" }));
      group.append(chartFigure(content));
    } else {
      closeGroup(group);
      group = null;
      main.append(makers[kind](content));
    }
  }
  closeGroup(group);
  if (page.command) {
    main.append(make("section", { class: "sheet" }, heading("Run it again"), make("pre", {}, page.command)));
  }
  const note = `Written by giusto ${page.version}. This file holds everything it shows and loads nothing.`;
  main.append(make("footer", {}, make("p", {}, note)));
};
