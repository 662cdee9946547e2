// The page on which values are changed: controls on the left, the pictures of the runs beside them.

const about = record;
const MAX_UNDO = 200;
// A run that takes longer is cancelled by the next change; a shorter one shows its first picture before.
const PATIENCE_MS = 250;
const SLIDER_STEPS = 1000;

const button = (text, action, attributes = {}) => {
  const element = make("button", { type: "button", ...attributes }, text);
  element.addEventListener("click", action);
  return element;
};
const copyOf = (value) => JSON.parse(JSON.stringify(value));

// What is asked: the question of the engine. `side` is the one whose controls are shown.
let state = copyOf(about.start ?? { sides: [{ scenario: about.gallery[0].name, settings: [] }], controllers: [], seeds: 1 });
let side = 0, past = [], future = [];
let groupsOfSides = [];

const parts = {
  status: make("p", { class: "status", role: "status" }),
  problems: make("div", { class: "problems", role: "alert" }),
  controls: make("div", { class: "values" }),
  compare: make("div", { class: "values" }),
  results: make("div", { class: "results", "aria-busy": "false" }),
  gallery: make("div", { class: "gallery" }),
};

/* The state, its history, and its link */

const link = () => `#q=${encodeURIComponent(JSON.stringify(state))}`;
const fromLink = () => {
  if (!location.hash.startsWith("#q=")) return null;
  try {
    const found = JSON.parse(decodeURIComponent(location.hash.slice(3)));
    if (!Array.isArray(found.sides) || !found.sides.length) return null;
    // A link that was shortened or written by hand: the engine says what else is wrong with it.
    const sides = found.sides.map((own) => ({ ...own, settings: Array.isArray(own?.settings) ? own.settings : [] }));
    return { ...found, sides, controllers: Array.isArray(found.controllers) ? found.controllers : [], seeds: found.seeds ?? 1 };
  } catch {
    return null;
  }
};

// Takes over another state. Changes of one slider in one go are one step of the history.
let lastChanged = null;
const change = (next, changed = null) => {
  const before = JSON.stringify(state);
  if (JSON.stringify(next) === before) return;
  if (changed === null || changed !== lastChanged) past.push(before);
  if (past.length > MAX_UNDO) past.shift();
  future = [];
  lastChanged = changed;
  adopt(next);
};
const adopt = (next) => {
  state = next;
  side = Math.min(side, state.sides.length - 1);
  tools.undo.disabled = !past.length;
  tools.redo.disabled = !future.length;
  tools.lesson.hidden = !lessons.some(({ name }) => name === state.sides[0].scenario);
  history.replaceState(null, "", link());
  showCompare();
  ask();
};
const step = (from, to) => {
  if (!from.length) return;
  to.push(JSON.stringify(state));
  lastChanged = null;
  adopt(JSON.parse(from.pop()));
};

// Sets a value of the side that is shown; null takes the setting back.
const set = (path, value, changed = null) => {
  const next = copyOf(state), own = next.sides[side];
  // A queue of another kind, or a rate that is drawn, leaves nothing of what was set within the old one.
  own.settings = own.settings.filter(([known]) => known !== path && !known.startsWith(`${path}.`));
  if (value != null) own.settings.push([path, value]);
  change(next, changed);
};

/* Questions and answers */

let asked = null, waiting = false, later = 0;

const ask = () => {
  clearTimeout(later);
  if (asked && !asked.shown) {
    const left = PATIENCE_MS - (performance.now() - asked.began);
    if (left > 0) {
      waiting = true;
      later = setTimeout(() => { waiting = false; post(); }, left);
      return;
    }
  }
  waiting = false;
  post();
};

const post = async () => {
  asked?.abort.abort();
  const own = asked = { abort: new AbortController(), began: performance.now(), shown: false };
  parts.results.setAttribute("aria-busy", "true");
  try {
    await engine.run(state, own.abort.signal, (update) => { if (asked === own) receive(own, update); });
  } catch (error) {
    if (error.name === "AbortError") return;
    failed(error);
  }
  if (asked === own) finished(own);
};

const failed = (error) => problems([error.message]);

const finished = (own) => {
  own.shown = true;
  parts.results.setAttribute("aria-busy", "false");
  if (waiting) { clearTimeout(later); waiting = false; post(); }
};

const receive = (own, update) => {
  if (update.kind === "progress") {
    parts.status.textContent = `${update.done} of ${update.of} runs`;
  } else if (update.kind === "problems") {
    problems(update.problems);
  } else {
    problems([]);
    groupsOfSides = update.controls;
    showControls();
    showPicture(update);
    own.shown = true;
    const took = performance.now() - own.began;
    parts.status.textContent = `${took.toFixed(0)} ms from the change to the ${update.last ? "last" : "first"} picture`;
    parts.results.dataset.pictures = 1 + Number(parts.results.dataset.pictures ?? 0);
    parts.results.dataset.took = took.toFixed(1);
    parts.results.dataset.last = update.last;
    if (waiting) { clearTimeout(later); waiting = false; post(); }
  }
};

const problems = (texts) => {
  parts.problems.replaceChildren(...texts.map((text) => make("p", {}, text)));
  if (!texts.length) return;
  parts.status.textContent = drawnSections.length ? "The pictures are those of the last run." : "";
  if (drawnSections.length || document.body.classList.contains("choosing")) return;
  document.querySelector(".headline").textContent = shownHeadline = "Nothing has run yet.";
};

/* Pictures */

let drawnSections = [], shownHeadline = page.headline;
const shapeOf = ({ kind, content }) => {
  if (kind === "chart") return `chart ${content.series.length > 0}`;
  if (kind !== "linked") return kind;
  const charts = content.charts.map((chart) => `${chart.title}/${chart.full_width}`);
  return JSON.stringify([kind, charts, content.lines.length, content.groups.map(({ name, charts: own, decisions }) => (
    [name, own, decisions.some(({ length }) => length > 0)]
  ))]);
};

const showPicture = ({ report, record: found }) => {
  record = found;
  document.querySelector("h1").textContent = report.title;
  document.querySelector(".headline").textContent = shownHeadline = report.headline;
  const sections = report.sections.map((section) => ({ section, shape: shapeOf(section), text: section.kind === "linked" ? "" : JSON.stringify(section) }));
  const same = sections.length === drawnSections.length && sections.every(({ shape }, place) => shape === drawnSections[place].shape);
  if (same) {
    sections.forEach((own, place) => {
      const before = drawnSections[place];
      own.element = before.element;
      const { kind, content } = own.section;
      if (kind === "chart") updateChart(own.element, content);
      else if (kind === "linked") updaters.get(own.element)(content);
      else if (own.text !== before.text) {
        const scratch = make("div");
        [own.element] = drawSections([own.section], scratch);
        keepFolds(before.element, own.element);
        before.element.replaceWith(own.element);
      }
    });
  } else {
    entries.forEach((_, plot) => { nearby.unobserve(plot); resized.unobserve(plot); if (ready) Plotly.purge(plot); });
    entries.clear();
    updaters.clear();
    const place = make("div");
    const elements = drawSections(report.sections, place);
    sections.forEach((own, index) => { own.element = elements[index]; });
    parts.results.replaceChildren(...place.childNodes);
  }
  drawnSections = sections;
  redraw();
  addTools();
};
const keepFolds = (before, after) => {
  if (before.querySelector("details")?.open) after.querySelector("details")?.setAttribute("open", "");
};

// Draws the charts in the window at once, the others near it when there is time.
// Safari has no idle callbacks.
const whenIdle = window.requestIdleCallback ?? ((work) => setTimeout(work, 1)), cancelIdle = window.cancelIdleCallback ?? clearTimeout;
let drawingLater = 0;
const redraw = () => {
  cancelIdle(drawingLater);
  // What was never drawn, `nearby` draws.
  const stale = [...entries.values()].filter((entry) => entry.stale && entry.drawn);
  const inWindow = ({ plot }) => {
    const { top, bottom } = plot.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  };
  stale.filter(inWindow).forEach(render);
  const others = stale.filter((entry) => entry.seen && !inWindow(entry));
  const next = () => {
    const entry = others.shift();
    if (!entry) return;
    if (entries.get(entry.plot) === entry && entry.stale) render(entry);
    drawingLater = whenIdle(next);
  };
  drawingLater = whenIdle(next);
};

/* Controls */

const short = (number) => String(Number(number.toPrecision(3)));
const textOf = (number, unit) => (unit ? `${short(number)} ${unit}` : short(number));

const toSlider = (number, { min, max, logarithmic }) => {
  const share = logarithmic ? Math.log(number / min) / Math.log(max / min) : (number - min) / (max - min);
  return Math.round(SLIDER_STEPS * Math.min(Math.max(share, 0), 1));
};
const fromSlider = (place, { min, max, step: least, logarithmic }) => {
  const share = place / SLIDER_STEPS;
  const number = logarithmic ? min * (max / min) ** share : min + (max - min) * share;
  return least ? Math.round(number / least) * least : number;
};

let controlNumber = 0;
const makeControl = (control) => {
  const id = `control${++controlNumber}`;
  const { path, kind } = control;
  const inputs = [];
  const input = (element) => { element.dataset.path = path; inputs.push(element); return element; };
  const field = (type) => {
    const element = input(make("input", { type: "text", id, spellcheck: "false", autocomplete: "off" }));
    element.addEventListener("change", () => set(path, element.value.trim() || null));
    element.dataset.type = type;
    return element;
  };
  let body;
  if (kind === "number") {
    const slider = input(make("input", { type: "range", min: 0, max: SLIDER_STEPS, "aria-label": `${control.label}, slider` }));
    const text = field("quantity");
    const own = { control };
    slider.addEventListener("input", () => {
      const value = textOf(fromSlider(Number(slider.value), own.control), own.control.unit);
      text.value = value;
      slider.setAttribute("aria-valuetext", value);
      set(path, value, path);
    });
    slider.addEventListener("change", () => { lastChanged = null; });
    body = [slider, text];
    inputs.slider = own;
  } else if (kind === "choice") {
    const choice = input(make("select", { id }));
    choice.addEventListener("change", () => set(path, choice.value));
    choice.append(...control.options.map((option) => make("option", {}, option)));
    body = [choice];
  } else if (kind === "toggle") {
    const box = input(make("input", { type: "checkbox", id }));
    box.addEventListener("change", () => set(path, String(box.checked)));
    body = [box];
  } else {
    body = [field("text")];
  }
  const reset = button("↺", () => set(path, null), { class: "reset", title: "as in the scenario", "aria-label": `${control.label}: as in the scenario` });
  const element = make("div", { class: `control ${kind}` }, make("label", { for: id }, control.label), ...body, reset);
  const show = (next) => {
    if (inputs.slider) inputs.slider.control = next;
    for (const own of inputs) {
      if (own.type === "range") {
        if (document.activeElement !== own) own.value = toSlider(next.number, next);
        own.setAttribute("aria-valuetext", next.value);
      } else if (own.type === "checkbox") own.checked = next.value === "true";
      else if (document.activeElement !== own || own.dataset.type === undefined) own.value = next.value;
    }
    reset.hidden = !state.sides[side].settings.some(([known]) => known === path);
    element.classList.toggle("default", Boolean(next.is_default));
  };
  show(control);
  return { element, show };
};

let shownControls = { shape: "", controls: [] };
const showControls = () => {
  const groups = groupsOfSides[side] ?? [];
  const all = groups.flatMap(({ controls }) => controls);
  const shape = JSON.stringify([side, groups.map(({ title }) => title), all.map(({ path, kind, options }) => [path, kind, options])]);
  if (shape === shownControls.shape) {
    all.forEach((control, place) => shownControls.controls[place].show(control));
    return;
  }
  const focused = document.activeElement?.dataset?.path, type = document.activeElement?.type;
  const open = new Map([...parts.controls.querySelectorAll("details")].map((own) => [own.dataset.title, own.open]));
  const controls = [];
  parts.controls.replaceChildren(...groups.map(({ title, folded, controls: own }) => {
    const made = own.map(makeControl);
    controls.push(...made);
    const summary = make("summary", {}, make("h3", {}, title));
    // What the file sets comes first; what has its default is one step away.
    const [few, more] = [false, true].map((isDefault) => made.filter((_, place) => Boolean(own[place].is_default) === isDefault).map(({ element }) => element));
    const rest = few.length && more.length ? [make("details", { class: "more", "data-title": `${title} more`, open: open.get(`${title} more`) ?? false }, make("summary", {}, `${more.length} more`), ...more)] : more;
    return make("details", { "data-title": title, open: open.get(title) ?? !folded }, summary, ...few, ...rest);
  }));
  shownControls = { shape, controls };
  if (focused) [...parts.controls.querySelectorAll("[data-path]")].find((own) => own.dataset.path === focused && own.type === type)?.focus();
};

/* Controllers, seeds and a second scenario */

let shownCompare = "";
const showCompare = () => {
  const shape = JSON.stringify([side, state.sides.map(({ scenario }) => scenario), state.controllers, state.seeds]);
  if (shape === shownCompare) return;
  shownCompare = shape;
  const focused = document.activeElement?.dataset?.name;
  const open = [...parts.compare.querySelectorAll("details")].map((own) => own.open);
  const boxes = about.controllers.map((name) => {
    const box = make("input", { type: "checkbox", "data-name": name });
    box.checked = state.controllers.includes(name);
    box.addEventListener("change", () => {
      const chosen = about.controllers.filter((known) => (known === name ? box.checked : state.controllers.includes(known)));
      change({ ...copyOf(state), controllers: chosen });
    });
    return make("label", {}, box, make("span", {}, ...breakable(name)));
  });
  const chosen = state.controllers.length;
  const seeds = make("input", { type: "range", min: 1, max: about.max_seeds, id: "seeds", "data-name": "seeds" });
  const count = make("output", { for: "seeds" }, String(state.seeds || 1));
  seeds.value = state.seeds || 1;
  seeds.addEventListener("input", () => { count.textContent = seeds.value; });
  seeds.addEventListener("change", () => change({ ...copyOf(state), seeds: Number(seeds.value) }));
  const several = state.sides.length > 1;
  const tab = (name, place) => button(`${name}`, () => { side = place; showCompare(); showControls(); }, {
    "aria-pressed": String(side === place), "data-name": `side${name}`,
  });
  const options = [about.file, ...about.gallery.map(({ name }) => name)].filter(Boolean);
  const choice = make("select", { id: "scenario", "data-name": "scenario" }, ...options.map((name) => make("option", { value: name }, name.split("/").slice(-2).join("/"))));
  choice.value = state.sides[side].scenario ?? about.file;
  choice.addEventListener("change", () => {
    const next = copyOf(state);
    next.sides[side] = { scenario: choice.value === about.file ? null : choice.value, settings: [] };
    change(next);
  });
  const beside = several
    ? [
      make("div", { class: "sides", role: "group", "aria-label": "Controls of" }, tab("A", 0), tab("B", 1)),
      button("Remove B", () => { const next = copyOf(state); next.sides.length = 1; change(next); }),
    ]
    : [button("Put a second scenario beside it", () => {
      const next = copyOf(state);
      next.sides.push(copyOf(next.sides[0]));
      side = 1;
      change(next);
    }, { "data-name": "beside" })];
  parts.compare.replaceChildren(
    make("div", { class: "control choice" }, make("label", { for: "scenario" }, several ? `scenario ${"AB"[side]}` : "scenario"), choice),
    make("div", { class: "beside" }, ...beside),
    make("div", { class: "control number" }, make("label", { for: "seeds" }, "seeds"), seeds, count),
    make(
      "details", { open: open[0] ?? chosen > 0 },
      make("summary", {}, make("h3", {}, chosen ? `${chosen} controllers side by side` : "Controllers side by side")),
      make("div", { class: "names" }, ...boxes),
    ),
  );
  if (focused) [...parts.compare.querySelectorAll("[data-name]")].find((own) => own.dataset.name === focused)?.focus();
};

/* Drawing a rate over time */

const DRAWN_STEPS = 60;
const CAPACITY = /^capacity of (.+?)(:reverse)?$/;

// The values of a chart at evenly spaced places.
const MAX_ROWS = 40;
const tableBehind = ({ model: asGiven }) => {
  // A chart that is not in sight is not drawn yet.
  const model = resolved(asGiven);
  const lines = model.series.filter(({ points }) => points?.x.length);
  if (!lines.length) {
    const bars = model.series.flatMap(({ name, bars: own, estimates, classes }) => (own ?? estimates ?? classes ?? []).map((row) => [name, ...row]));
    return bars.map((row) => row.map((cell) => cell ?? "–"));
  }
  const { x } = lines[0].points, each = Math.ceil(x.length / MAX_ROWS);
  const at = ({ points }, value) => points.y[Math.max(points.x.findLastIndex((own) => own <= value), 0)];
  return [[model.x.title, ...lines.map(({ name }) => name || model.y.title)], ...x.filter((_, place) => place % each === 0).map((value) => [short(value), ...lines.map((own) => { const y = at(own, value); return y == null ? "–" : short(y); })])];
};

// Tools of each chart: a table of its values, and to draw its capacity.
const addTools = () => entries.forEach((entry) => {
  const { plot } = entry, figure = plot.closest("figure");
  if (!figure.querySelector(".behind")) {
    const rows = make("tbody"), fill = () => rows.replaceChildren(...tableBehind(entry).map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, String(cell))))));
    const behind = make("details", { class: "behind" }, make("summary", {}, "Table"), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table of ${entry.model.title}` }, make("table", {}, rows)));
    behind.addEventListener("toggle", () => { if (behind.open) fill(); });
    figure.append(behind);
  } else if (figure.querySelector(".behind").open) figure.querySelector(".behind").dispatchEvent(new Event("toggle"));
  const limit = entry.model.series.find(({ kind, name }) => kind === "limit" && CAPACITY.test(name));
  let tool = figure.querySelector(".pencil");
  if (!limit || state.sides.length > 1) { tool?.remove(); return; }
  const text = `Draw the ${limit.name}`;
  if (tool) { tool.textContent = text; return; }
  tool = button(text, () => startDrawing(entry, tool), { class: "pencil", "aria-pressed": "false" });
  figure.querySelector("figcaption").after(tool);
});

const startDrawing = (entry, tool) => {
  const { plot } = entry;
  const before = plot.querySelector(".paper");
  if (before) {
    before.remove();
    tool.setAttribute("aria-pressed", "false");
    return;
  }
  if (!entry.drawn) return;
  tool.setAttribute("aria-pressed", "true");
  const limit = entry.model.series.find(({ kind, name }) => kind === "limit" && CAPACITY.test(name));
  const [, id, reverse] = CAPACITY.exec(limit.name);
  const path = `link.${id}${reverse ? ".reverse" : ""}.rate`;
  const duration = entry.model.x.range[1];
  const width = duration / DRAWN_STEPS;
  // The capacity so far, in bit/s.
  const steps = Array.from({ length: DRAWN_STEPS }, (_, index) => {
    const found = limit.points.x.findIndex((x) => x >= (index + 0.5) * width);
    const value = limit.points.y[found < 0 ? limit.points.y.length - 1 : found];
    return (value ?? 0) * entry.model.y.factor;
  });
  const paper = make("div", { class: "paper", title: "Drag to draw" });
  const line = draw("path", { class: "drawn" });
  paper.append(draw("svg", { width: "100%", height: "100%", "aria-hidden": "true" }, line));
  const axes = () => plot._fullLayout;
  const at = ({ offsetX, offsetY }) => {
    const { xaxis, yaxis } = axes();
    return [xaxis.p2d(offsetX - xaxis._offset), Math.max(yaxis.p2d(offsetY - yaxis._offset), 0) * entry.model.y.factor];
  };
  const show = () => {
    const { xaxis, yaxis } = axes();
    const px = (x) => xaxis._offset + xaxis.d2p(x), py = (bps) => yaxis._offset + yaxis.d2p(bps / entry.model.y.factor);
    line.setAttribute("d", steps.map((bps, index) => (
      `${index ? "L" : "M"}${px(index * width).toFixed(1)},${py(bps).toFixed(1)}H${px((index + 1) * width).toFixed(1)}`
    )).join(""));
  };
  let last = null;
  const paint = (event) => {
    const [x, bps] = at(event);
    const index = Math.min(Math.max(Math.floor(x / width), 0), DRAWN_STEPS - 1);
    const from = last ?? [index, bps];
    const span = Math.abs(index - from[0]);
    for (let passed = 0; passed <= span; passed++) {
      const share = span ? passed / span : 1;
      steps[from[0] + Math.sign(index - from[0]) * passed] = from[1] + (bps - from[1]) * share;
    }
    last = [index, bps];
    show();
  };
  const written = () => {
    const list = [];
    steps.forEach((bps, index) => {
      // Three digits; a rate of zero would be an outage, which must end.
      const rate = `${short(Math.max(bps, 1000) / 1000)} kbit/s`;
      if (list.at(-1)?.[1] !== rate) list.push([`${short(index * width)} s`, rate]);
    });
    return `{ steps = [${list.map(([time, rate]) => `["${time}", "${rate}"]`).join(", ")}] }`;
  };
  paper.addEventListener("pointerdown", (event) => { paper.setPointerCapture(event.pointerId); last = null; paint(event); });
  paper.addEventListener("pointermove", (event) => { if (paper.hasPointerCapture(event.pointerId)) paint(event); });
  paper.addEventListener("pointerup", () => { last = null; set(path, written()); });
  plot.append(paper);
  show();
};

/* Files */

const download = (name, type, content) => {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const anchor = make("a", { href: url, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
};

const nameOf = ({ scenario }) => (scenario ?? about.file ?? "scenario").split("/").at(-1).replace(/\.toml$/, "");

const saveScenario = async () => {
  const own = state.sides[side];
  try {
    const { text, problems: found } = await engine.save(own);
    if (found) problems(found); else download(`${nameOf(own)}-explored.toml`, "application/toml", text);
  } catch (error) {
    failed(error);
  }
};

const copyLink = async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    parts.status.textContent = `The link is on the clipboard. ${engine.aboutLinks}`;
  } catch {
    parts.status.textContent = "The address of this page is the link.";
  }
};

/* The gallery */

const sketchOf = ({ capacity_bps: capacity, flows_bps: flows }) => {
  const WIDTH = 240, HEIGHT = 80, all = [capacity, ...flows];
  const most = Math.max(1, ...all.flat().map((value) => value ?? 0)), count = Math.max(2, ...all.map((own) => own.length));
  const path = (values) => values.map((value, index) => (value == null ? "" : (
    `${index ? "L" : "M"}${(WIDTH * index / (count - 1)).toFixed(1)},${(HEIGHT - 2 - (HEIGHT - 6) * value / most).toFixed(1)}`
  ))).join("").replace(/^L/, "M");
  const lines = flows.map((values, index) => draw("path", { d: path(values), fill: "none", stroke: `var(--series-${index % COLOURS})`, "stroke-width": 1.5 }));
  const limit = draw("path", { d: path(capacity), fill: "none", stroke: "var(--mark-0)", "stroke-dasharray": "5 3" });
  return draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "received rates over time" }, ...lines, ...(capacity.length ? [limit] : []));
};

// At most two sketches are asked for at a time.
const wanted = [];
let sketching = 0;
const sketchNext = async () => {
  if (sketching >= 2 || !wanted.length) return;
  const { name, place } = wanted.shift();
  sketching += 1;
  try {
    const sketch = await engine.sketch(name);
    if (sketch) place.replaceChildren(sketchOf(sketch));
  } finally {
    sketching -= 1;
    sketchNext();
  }
};
const sketches = new IntersectionObserver((changes) => changes.forEach(({ target, isIntersecting }) => {
  if (!isIntersecting || target.dataset.asked) return;
  target.dataset.asked = "true";
  wanted.push({ name: target.dataset.name, place: target });
  sketchNext();
}), { rootMargin: "200px" });

const showGallery = () => {
  if (!parts.gallery.childNodes.length) {
    const search = make("input", { type: "search", id: "search", autocomplete: "off" });
    const folders = ["everything", "lessons", ...new Set(about.gallery.map(({ name }) => name.split("/")).filter(({ length }) => length > 1).map(([folder]) => folder).filter((folder) => folder !== "lessons"))];
    const folder = make("select", { id: "folder" }, ...folders.map((name) => make("option", {}, name)));
    const found = make("p", { class: "status", role: "status" });
    const cards = about.gallery.map((entry, number) => {
      const { name, sentence, lesson } = entry;
      const picture = make("div", { class: "sketch", "data-name": name });
      sketches.observe(picture);
      const open = button(lesson ? `${number + 1}. ${lesson.title}` : name, () => show({ sides: [{ scenario: name, settings: [] }], controllers: [], seeds: 1 }));
      const text = lesson?.question ?? sentence;
      const element = make("article", { class: "sheet" }, make("h3", {}, open), make("p", {}, text), picture);
      return { element, lesson, folder: lesson ? "lessons" : name.split("/").at(-2), text: `${name} ${lesson?.title ?? ""} ${text} ${sentence}`.toLowerCase() };
    });
    const part = (title, own) => make("section", { class: "part", "aria-label": title }, make("h2", {}, title), ...own.map(({ element }) => element));
    const filter = () => {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const left = cards.filter((own) => {
        const fits = (folder.selectedIndex === 0 || own.folder === folder.value) && wanted.every((word) => own.text.includes(word));
        own.element.hidden = !fits;
        return fits;
      });
      parts.gallery.querySelectorAll(".part").forEach((own) => { own.hidden = !own.querySelector("article:not([hidden])"); });
      found.textContent = left.length === cards.length ? `${cards.length} scenarios` : `${left.length} of ${cards.length} scenarios`;
    };
    search.addEventListener("input", filter);
    folder.addEventListener("change", filter);
    parts.gallery.append(
      make("div", { class: "find" }, make("label", { for: "search" }, "Search"), search, make("label", { for: "folder" }, "in"), folder, found),
      part("Lessons", cards.filter(({ lesson }) => lesson)), part("Scenarios", cards.filter(({ lesson }) => !lesson)),
    );
    filter();
  }
  learning.close();
  document.body.classList.add("choosing");
  document.querySelector("h1").textContent = page.title;
  document.querySelector(".headline").textContent = "Choose a lesson or a scenario.";
};
const leaveGallery = () => {
  document.querySelector(".headline").textContent = shownHeadline;
  document.body.classList.remove("choosing");
  scrollTo(0, 0);
};

// Shows a state: a lesson where it is the start of one or positions of its knobs, or else the page with all controls.
const show = (next) => {
  const [own] = next.sides, entry = lessons.find(({ name }) => name === own.scenario);
  if (entry && next.sides.length === 1 && !next.controllers.length && (next.seeds || 1) === 1 && learning.fits(entry, own.settings)) {
    openLesson(entry, own.settings);
    return;
  }
  learning.close();
  if (document.body.classList.contains("choosing")) leaveGallery();
  // The page begins with the first scenario in mind, but has not run it.
  if (JSON.stringify(next) === JSON.stringify(state)) ask(); else change(next);
};

/* The page */

// Scenario files of the user, where the engine opens them: by a button, or dropped onto the page.
const openFiles = async (files) => {
  const texts = Object.fromEntries(await Promise.all([...files].map(async (own) => [own.name, await own.text()])));
  const isScenario = (name) => /\.toml$/i.test(name) && !/^\s*algorithm\s*=/m.test(texts[name]);
  const name = Object.keys(texts).find(isScenario) ?? about.own?.name;
  if (name === undefined) return problems(["none of these is a scenario file (TOML): open it together with the files that it names"]);
  const beside = { ...about.own?.beside, ...texts };
  delete beside[name];
  const own = { name, text: texts[name] ?? about.own.text, beside };
  const { problems: found } = await engine.open(own);
  if (found) return problems(found);
  Object.assign(about, { own, file: name });
  learning.close();
  if (document.body.classList.contains("choosing")) leaveGallery();
  [past, future, shownCompare] = [[], [], ""];
  adopt({ sides: [{ settings: [] }], controllers: [], seeds: 1 });
};
const chooseFiles = () => {
  const input = make("input", { type: "file", multiple: true });
  input.addEventListener("change", () => openFiles(input.files).catch(failed));
  input.click();
};
if (engine.open) {
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) openFiles(event.dataTransfer.files).catch(failed);
  });
}

const tools = {
  undo: button("Undo", () => step(past, future), { disabled: true }),
  redo: button("Redo", () => step(future, past), { disabled: true }),
  ...(engine.open && { open: button("Open TOML", chooseFiles, { title: "Your scenario file, with the files that it names" }) }),
  save: button("Save as TOML", saveScenario),
  figure: button("Save figure", () => openFigures()),
  ...dataTools(),
  copy: button("Copy link", copyLink),
  gallery: button("Gallery", () => showGallery()),
  lesson: button("Lesson", () => openLesson(lessons.find(({ name }) => name === state.sides[0].scenario)), { hidden: true }),
};

addEventListener("keydown", (event) => {
  const inText = event.target.matches?.("input[type=text]");
  if (learning.entry || !(event.ctrlKey || event.metaKey) || inText || event.key.toLowerCase() !== "z") return;
  event.preventDefault();
  if (event.shiftKey) step(future, past); else step(past, future);
});
