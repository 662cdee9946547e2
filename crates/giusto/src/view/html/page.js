"use strict";
// Builds the page from the JSON model. Every text enters the document as text; only the parts between backticks become <code>.

const page = JSON.parse(document.getElementById("page").textContent);
const recordElement = document.getElementById("record");
const record = recordElement ? JSON.parse(recordElement.textContent) : null;
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

// A box that scrolls sideways has a hint.
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
    const rows = Math.ceil(content.length / Math.max(Math.floor(list.clientWidth / CARD_WIDTH), 2));
    list.style.setProperty("--columns", Math.ceil(content.length / rows));
  }).observe(list);
  return list;
};

const cellClass = (column, text) => {
  if (column?.numeric) return "n";
  if (text.length <= SHORT_CELL) return "short";
  return text.length <= LONG_CELL ? null : "long";
};

const table = (content) => {
  const { title, caption, columns, rows, folded } = content;
  const isList = columns.length <= MAX_LIST_COLUMNS;
  const head = columns.map((column) => make("th", { scope: "col", class: column.numeric && "n" }, column.name));
  const row = (cells) => make("tr", {}, ...cells.map((cell, place) => {
    const column = columns[place], first = place === 0;
    const attributes = { scope: first && "row", class: cellClass(column, cell.text), "data-name": column?.numeric && column.name };
    return make(first ? "th" : "td", attributes, ...toned(cell.text, cell.tone));
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
