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
  lesson: make("div"),
  gallery: make("section", { class: "gallery", "aria-label": "Scenarios" }),
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
  history.replaceState(null, "", link());
  showCompare();
  showLesson();
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
  if (texts.length) parts.status.textContent = "The pictures are those of the last run.";
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
  const stale = [...entries.values()].filter((entry) => entry.stale || (!entry.drawn && ready));
  const inWindow = ({ plot }) => {
    const { top, bottom } = plot.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  };
  stale.filter(inWindow).forEach(render);
  const others = stale.filter((entry) => entry.seen && !inWindow(entry));
  const next = () => {
    const entry = others.shift();
    if (!entry) return;
    if (entries.get(entry.plot) === entry && (entry.stale || !entry.drawn)) render(entry);
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
    return make("details", { "data-title": title, open: open.get(title) ?? !folded }, summary, ...made.map(({ element }) => element));
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
    return make("label", {}, box, name);
  });
  const chosen = state.controllers.length;
  const seeds = make("input", { type: "range", min: 1, max: Math.min(20, about.max_seeds), id: "seeds", "data-name": "seeds" });
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

/* Lessons */

const lessonOf = () => about.gallery.find(({ name }) => name === state.sides[0].scenario)?.lesson;
let shownLesson = "";
const showLesson = () => {
  const lesson = lessonOf(), now = lesson ? lesson.title : "";
  const settings = JSON.stringify(state.sides[0].settings);
  if (now !== shownLesson) {
    shownLesson = now;
    const step = (text, own) => button(text, () => {
      const next = copyOf(state);
      next.sides[0].settings = copyOf(own);
      change(next);
    }, { "data-settings": JSON.stringify(own) });
    parts.lesson.replaceChildren(...(lesson ? [make(
      "section", { class: "sheet lesson", "aria-label": "Lesson" },
      make("h2", {}, lesson.title),
      make("p", {}, ...words(lesson.question)),
      make(
        "ol", {},
        make("li", {}, step("Run it as it is.", [])),
        ...lesson.steps.map(([text, own]) => make("li", {}, step(text, own))),
      ),
      make("details", {}, make("summary", {}, "Answer"), make("p", {}, ...words(lesson.answer))),
    )] : []));
  }
  parts.lesson.querySelectorAll("button").forEach((own) => own.setAttribute("aria-pressed", String(own.dataset.settings === settings)));
};

/* Drawing a rate over time */

const DRAWN_STEPS = 60;
const CAPACITY = /^capacity of (.+?)(:reverse)?$/;

// Tools of each chart: draw its capacity.
const addTools = () => entries.forEach((entry) => {
  const { plot } = entry, figure = plot.closest("figure");
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
    const part = (title) => make("h2", { class: "part" }, title);
    const cards = about.gallery.map(({ name, sentence, lesson }) => {
      const picture = make("div", { class: "sketch", "data-name": name });
      sketches.observe(picture);
      const open = button(lesson?.title ?? name, () => {
        leaveGallery();
        const next = { sides: [{ scenario: name, settings: [] }], controllers: [], seeds: 1 };
        // The page begins with the first scenario in mind, but has not run it.
        if (JSON.stringify(next) === JSON.stringify(state)) ask(); else change(next);
      });
      return make("article", { class: "sheet" }, make("h3", {}, open), make("p", {}, lesson?.question ?? sentence), picture);
    });
    const lessons = about.gallery.filter(({ lesson }) => lesson).length;
    parts.gallery.append(part("Lessons"), ...cards.slice(0, lessons), part("Scenarios"), ...cards.slice(lessons));
  }
  document.body.classList.add("choosing");
  document.querySelector(".headline").textContent = "Choose a scenario.";
};
const leaveGallery = () => {
  document.querySelector(".headline").textContent = shownHeadline;
  document.body.classList.remove("choosing");
  scrollTo(0, 0);
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
  copy: button("Copy link", copyLink),
  gallery: button("Gallery", () => (document.body.classList.contains("choosing") ? leaveGallery() : showGallery())),
};

addEventListener("keydown", (event) => {
  const inText = event.target.matches?.("input[type=text]");
  if (!(event.ctrlKey || event.metaKey) || inText || event.key.toLowerCase() !== "z") return;
  event.preventDefault();
  if (event.shiftKey) step(future, past); else step(past, future);
});

/* Figures */

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

const bench = make(
  "div", { class: "bench" },
  make(
    "aside", { class: "sheet knobs", "aria-label": "Controls" },
    make("div", { class: "tools", role: "toolbar", "aria-label": "Tools" }, ...Object.values(tools)),
    parts.status, parts.problems, parts.compare, parts.controls,
  ),
  make("div", {}, parts.lesson, parts.results),
);
document.body.classList.add("exploring");
main.querySelector("header").after(parts.gallery, bench);
state = fromLink() ?? state;
addEventListener("hashchange", () => {
  const found = fromLink();
  if (!found) return;
  if (document.body.classList.contains("choosing")) leaveGallery();
  change(found);
});
showCompare();
showLesson();
if (about.start || location.hash.startsWith("#q=")) ask(); else showGallery();
