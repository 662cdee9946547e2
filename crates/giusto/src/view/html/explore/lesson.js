/* Lessons: guess, see, change, understand. A lesson is data: a scenario, knobs and sentences. */

const still = matchMedia("(prefers-reduced-motion: reduce)");
const SPEEDS = [[1, "real time"], [0.5, "2 × slower"], [0.1, "10 × slower"], [0.03, "30 × slower"], [0.01, "100 × slower"]];
const lessons = about.gallery.filter(({ lesson }) => lesson);

// What a chart or a sentence can show of a flow or of the first link.
const ms = { show: milliseconds, size: 1 }, bps = { show: bits, size: 1 }, percent = { show: (ratio) => (ratio == null ? "–" : `${(100 * ratio).toFixed(ratio && ratio < 0.0995 ? 1 : 0)} %`), size: 0.01 };
const FIGURES = {
  delay: { ...ms, name: "delay", of: (flow) => flow.delay_ms?.p50 },
  queue: { ...ms, name: "wait in the queue", note: "95 % of packets wait less", of: (flow) => flow.queue_delay_ms?.p95 },
  frame: { ...ms, name: "frame delay", note: "95 % of frames take less", of: (flow) => flow.frame_delay_ms?.p95 },
  loss: { ...percent, name: "loss", of: (flow) => flow.loss_ratio },
  marked: { ...percent, name: "share of marked packets", of: (flow) => flow.marked_ratio },
  rate: { ...bps, name: "rate", of: (flow) => flow.received_rate_bps, adds: true },
  sent: { ...bps, name: "sending rate", of: (flow) => flow.sent_rate_bps, adds: true },
  use: { ...percent, name: "use", of: (link) => link.utilisation_ratio },
};
const figureIn = (film, text) => {
  const [id, kind] = text.split(" "), own = FIGURES[kind], { run: { flows }, groups } = film;
  const members = flows.filter(({ group }) => group === id), values = (members.length ? members : [film.link]).map(own.of);
  const value = own.adds ? values.reduce((sum, next) => sum + next, 0) : values[0];
  return { ...own, value, label: `${own.name} of the ${groups.includes(id) ? id : "line"}` };
};

const LINES = {
  delay: { title: "Delay", of: ({ delay_mean_ms: own }) => own, ...ms },
  frame: { title: "Delay of frames", of: ({ media }) => media?.frame_delay_max_ms, ...ms },
  rate: { title: "Received rate", of: ({ received_rate_bps: own }) => own, ...bps, limit: true, adds: true },
  sent: { title: "Sending rate", of: ({ sent_rate_bps: own }) => own, ...bps, limit: true, adds: true },
  target: { title: "Target rate", of: ({ media }) => media?.target_rate_bps, ...bps, limit: true },
  queue: { title: "Delay in the queue", link: ({ queue_delay_mean_ms: own }) => own, ...ms },
  window: { title: "Window", of: ({ gauges }) => gauges.find(({ name }) => /cwnd|window/.test(name))?.mean, show: (bytes) => (bytes == null ? "–" : `${(bytes / 1000).toFixed(bytes < 9950 ? 1 : 0)} kB`), size: 1 },
};
// The lines of a chart such as `voice delay`, `all rate` or `call packet+frame`.
const linesIn = (film, text) => {
  const [id, kinds] = text.split(" "), { timeline } = film.run, { slow } = film, found = [];
  for (const kind of kinds.split("+")) {
    const own = LINES[kind];
    if (own.link) found.push({ name: kinds.includes("+") ? "queue" : "", colour: "var(--soft)", values: own.link(slow) });
    else film.groups.forEach((group, number) => {
      if (id !== "all" && id !== group) return;
      const members = timeline.flows.filter((_, place) => film.group[place] === number).map(own.of).filter(Boolean);
      if (!members.length) return;
      const values = members[0].map((first, window) => (own.adds ? members.reduce((sum, next) => sum + (next[window] ?? 0), 0) : first));
      found.push({ name: kinds.includes("+") ? { delay: "packets", frame: "frames" }[kind] ?? kind : group, colour: `var(--series-${(kinds.includes("+") ? kinds.split("+").indexOf(kind) : number) % COLOURS})`, values });
    });
    if (own.limit && kind === kinds.split("+").at(-1)) found.push({ name: "link", colour: "var(--mark-0)", values: slow.capacity_bps, dash: "6 4" });
  }
  const first = LINES[kinds.split("+")[0]];
  return { title: kinds === "delay+frame" ? "Delay" : kinds.includes("+") ? "Rates" : `${first.title}${id === "all" || first.link ? "" : ` of ${id}`}`, show: first.show, lines: found };
};

// The dots of a line of the run before.
const GHOST = "2 4";
const keyLine = (colour, dash) => draw("svg", { width: 18, height: 8, "aria-hidden": "true" }, draw("path", { d: "M0,4h18", stroke: colour, "stroke-width": 3, "stroke-dasharray": dash ?? "" }));

// A chart in step with the stage: lines of the run, the ghost of the one before, what the reader drew, and the moment.
class Strip {
  constructor(text, seek, number) {
    this.text = text;
    this.number = number;
    this.title = make("h2");
    this.plot = draw("svg", { role: "img", "aria-label": "" });
    this.element = make("figure", { class: "strip" }, this.title, this.plot);
    this.drawn = [];
    const move = (event) => {
      if (event.buttons !== 1 || !this.scale) return;
      const { left, top } = this.plot.getBoundingClientRect(), { l, wide, high, end, most } = this.scale;
      const part = Math.min(Math.max((event.clientX - left - l) / wide, 0), 1);
      if (this.draws) {
        if (this.number) return;
        this.drawn[Math.round(60 * part)] = most * Math.min(Math.max(1 - (event.clientY - top - 4) / high, 0), 1);
        this.show();
      } else seek(part * end);
    };
    this.plot.addEventListener("pointerdown", (event) => { this.plot.setPointerCapture(event.pointerId); move(event); });
    this.plot.addEventListener("pointermove", move);
    sizeObserver(() => this.show()).observe(this.element);
  }

  set(film, ghost, draws) {
    Object.assign(this, { film, ghost, draws });
    this.show();
  }

  show() {
    const { film, ghost, plot } = this, width = plot.clientWidth, height = plot.clientHeight;
    if (!film || !width || !height) return;
    const { title, lines, show } = linesIn(film, this.text), before = ghost ? linesIn(ghost, this.text).lines.filter(({ dash }) => !dash) : [];
    const l = 66, wide = width - l - 8, high = height - 22, end = film.run.duration_s;
    const most = Math.max(...lines.concat(before).flatMap(({ values }) => values.map((value) => value ?? 0)), 1e-9) * 1.08;
    this.scale = { l, wide, high, end, most };
    const x = (t) => l + wide * t / end, y = (value) => 4 + high * (1 - value / most);
    const step = film.run.timeline.width_s;
    const path = (values, each = step) => values.map((value, place) => (value == null ? "" : `${values[place - 1] == null ? "M" : "L"}${x((place + 0.5) * each).toFixed(1)},${y(value).toFixed(1)}`)).join("");
    const text = (content, at, style = "") => draw("text", { ...at, class: style }, content);
    const grid = [0, most / 2.16, most / 1.08].flatMap((value) => [draw("path", { d: `M${l},${y(value)}h${wide}`, class: "rule" }), text(show(value || null).replace("–", "0"), { x: l - 6, y: y(value) + 4, "text-anchor": "end" })]);
    const times = [0, 0.5, 1].map((part) => text(`${Number((end * part).toFixed(1))} s`, { x: x(end * part), y: height - 3, "text-anchor": ["start", "middle", "end"][2 * part] }));
    const line = ({ values, colour, dash }, style = "", clip = "none") => draw("path", { d: path(values), fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": dash ?? "", class: style, "clip-path": clip });
    const own = Array.from(this.drawn, (value) => value ?? null);
    const filled = own.filter((value) => value != null).length > 1 ? draw("path", { d: own.map((value, place) => [value, place]).filter(([value]) => value != null).map(([value, place], index) => `${index ? "L" : "M"}${x(place * end / 60)},${y(value)}`).join(""), class: "drawn" }) : null;
    this.cursor = draw("path", { class: "now" });
    // What is still to come is faint.
    this.past = draw("rect", { x: 0, y: 0, height });
    plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    plot.replaceChildren(...[...grid, ...times, ...(this.draws ? [] : [...before.map((own) => line({ ...own, dash: GHOST }, "ghost")), ...lines.map((own) => line(own, "ahead")), draw("clipPath", { id: `past${this.number}` }, this.past), ...lines.map((own) => line(own, "", `url(#past${this.number})`))]), filled, this.cursor].filter(Boolean));
    if (this.draws && !this.number) plot.append(text("Draw your guess here", { x: l + wide / 2, y: 4 + high / 2, "text-anchor": "middle" }, "invite"));
    const names = lines.filter(({ name }) => name).map(({ name, colour, dash }) => make("span", {}, keyLine(colour, dash), name));
    if (before.length) names.push(make("span", {}, keyLine("var(--soft)", GHOST), "before"));
    this.title.replaceChildren(title, make("span", { class: "names" }, ...names));
    const last = lines.map(({ name, values }) => `${name || title} ${show(values.findLast((value) => value != null))}`);
    plot.setAttribute("aria-label", this.draws ? `Chart: ${title} over time, empty until you have guessed` : `Chart: ${title} over time. At the end: ${last.join(", ")}.`);
    this.at(this.t ?? 0);
  }

  at(t) {
    this.t = t;
    if (!this.scale) return;
    this.past.setAttribute("width", this.scale.l + this.scale.wide * t / this.scale.end);
    this.cursor.setAttribute("d", `M${this.scale.l + this.scale.wide * t / this.scale.end},2v${this.scale.high + 2}`);
  }
}

/* The page of a lesson */

const learning = (() => {
  const place = make("div", { class: "learn" });
  let entry = null, lesson, positions, film, base, ghost, scene, scenes, strips, t, speed, playing = false, wanted = 0, said = "", chosen = null, last = 0, guessed = null;
  const stage = new Stage();
  const say = make("p", { class: "say", role: "status" });
  const wrong = make("div", { class: "problems", role: "alert" });
  const card = make("section", { class: "sheet card-of", "aria-labelledby": "scene" });
  const turn = make("div", { class: "turn" });
  const slider = make("input", { type: "range", min: 0, step: "any", "aria-label": "moment of the run" });
  const clock = make("output", { class: "clock" });
  const pace = make("select", { "aria-label": "slowness" }, ...SPEEDS.map(([value, name]) => make("option", { value }, name)));
  const play = button("▶ Play", () => { if (film && t >= film.end) t = 0; run(!playing); }, { class: "play" });
  const charts = make("div", { class: "strips" });
  const hidden = () => scenes[scene].kind === "guess";

  const settingsOf = (of) => of.flatMap((position, knob) => lesson.knobs[knob].positions[position][1]);
  // The positions that make these settings; null where none do.
  const positionsOf = (settings) => {
    const has = (own) => own.every((pair) => settings.some((known) => known.join() === pair.join()));
    const found = lesson.knobs.map(({ positions: all }) => {
      const fitting = all.map(([, own], index) => [own.length, index]).filter(([, index]) => has(all[index][1]));
      return fitting.sort((a, b) => b[0] - a[0])[0]?.[1] ?? 0;
    });
    return settingsOf(found).length === settings.length ? found : null;
  };

  const show = () => {
    if (!film) return;
    stage.draw(film, hidden() ? null : ghost, t, speed, hidden());
    strips.forEach((own) => own.at(t));
    clock.textContent = `${t.toFixed(speed < 0.1 ? 3 : 1)} s`;
    slider.value = t;
    slider.setAttribute("aria-valuetext", clock.textContent);
    place.dataset.t = t.toFixed(3);
  };
  const frame = (now) => {
    if (!playing || !film) return;
    t = Math.min(t + Math.min((now - last) / 1000, 0.1) * speed, film.end);
    last = now;
    show();
    if (t >= film.end) run(false); else requestAnimationFrame(frame);
  };
  const run = (on) => {
    playing = Boolean(on && film && entry);
    play.textContent = playing ? "❚❚ Pause" : "▶ Play";
    last = performance.now();
    if (playing) requestAnimationFrame(frame); else if (film && entry) stage.describe(film, t);
  };
  const seek = (to) => { run(false); t = Math.min(Math.max(to, 0), film.end); show(); stage.describe(film, t); };
  slider.addEventListener("input", () => seek(Number(slider.value)));
  pace.addEventListener("change", () => { speed = Number(pace.value); show(); });

  // Runs what the knobs say; `then` is called with the film before.
  const load = async (then) => {
    const own = ++wanted, began = performance.now();
    place.setAttribute("aria-busy", "true");
    try {
      const found = await engine.film({ scenario: entry.name, settings: settingsOf(positions) });
      if (own !== wanted || !entry) return;
      wrong.replaceChildren(...(found.problems ?? []).map((text) => make("p", {}, text)));
      if (found.problems) return;
      const old = film;
      film = readFilm(found);
      if (!settingsOf(positions).length) base = film;
      slider.max = film.end;
      then(old);
      strips.forEach((strip) => strip.set(film, hidden() ? null : ghost, hidden()));
      place.dataset.took = (performance.now() - began).toFixed(1);
      place.dataset.films = 1 + Number(place.dataset.films ?? 0);
      show();
      stage.describe(film, t);
    } catch (error) {
      wrong.replaceChildren(make("p", {}, error.message));
    } finally {
      if (own === wanted) place.setAttribute("aria-busy", "false");
    }
  };

  const quoted = (text) => (/^\d/.test(text) ? text : `“${text}”`);
  // One sentence for what was done: each knob that was moved, each figure before and after.
  const sentence = (from, old) => {
    const moved = lesson.knobs.flatMap(({ name, positions: all }, knob) => (from[knob] === positions[knob] ? [] : [`${name} from ${quoted(all[from[knob]][0])} to ${quoted(all[positions[knob]][0])}`]));
    const compared = lesson.figures.map((text) => {
      const [was, is] = [old, film].map((own) => figureIn(own, text));
      const change = direction(was, is), verb = { falls: "fell", rises: "rose", stays: "stayed about the same" }[change];
      return change === "stays" ? `the ${is.label} ${verb} (${is.show(is.value)})` : `the ${is.label} ${verb} from ${was.show(was.value)} to ${is.show(is.value)}`;
    });
    return `You changed ${moved.join(", and ")}: ${compared.join("; ")}.`;
  };
  const direction = (was, is) => {
    const ratio = (is.value + is.size * 1e-3) / (was.value + is.size * 1e-3);
    return ratio > 1.15 ? "rises" : ratio < 0.87 ? "falls" : "stays";
  };
  // Turns the knobs. A step is compared with the file, a change of the reader with what was before.
  const goTo = (next) => {
    const isStep = scenes[scene].kind === "step", from = isStep ? lesson.knobs.map(() => 0) : positions;
    if (isStep && !base) {
      positions = from;
      load(() => goTo(next));
      return;
    }
    if (!isStep && next.join() === positions.join()) return;
    positions = next;
    remember();
    showKnobs();
    load((old) => {
      ghost = isStep ? base : old;
      said = sentence(from, ghost);
      say.textContent = said;
      showScene(false);
      card.scrollTop = 0;
      if (t >= film.end) t = 0;
      if (!still.matches) run(true);
    });
  };
  const remember = () => {
    state = { sides: [{ scenario: entry.name, settings: settingsOf(positions) }], controllers: [], seeds: 1 };
    history.replaceState(null, "", link());
  };

  const showKnobs = () => {
    const focused = document.activeElement?.dataset?.knob, index = document.activeElement?.value;
    turn.replaceChildren(...(hidden() ? [] : lesson.knobs.map(({ name, positions: all }, knob) => make(
      "fieldset", {}, make("legend", {}, name),
      ...all.map(([text], position) => {
        const input = make("input", { type: "radio", name: `knob${knob}`, value: position, "data-knob": knob, checked: positions[knob] === position });
        input.addEventListener("change", () => goTo(positions.with(knob, position)));
        return make("label", {}, input, make("span", {}, text));
      }),
    ))));
    if (focused !== undefined) turn.querySelector(`[data-knob="${focused}"][value="${index}"]`)?.focus();
  };

  const enter = (next) => {
    scene = next;
    place.dataset.scene = scenes[scene].kind;
    chosen = null;
    said = "";
    say.textContent = "";
    const own = scenes[scene];
    if (own.kind !== "end" && own.kind !== "own") {
      ghost = null;
      // It begins with the run of the file.
      if (settingsOf(positions).length) {
        positions = lesson.knobs.map(() => 0);
        remember();
        if (base) film = base; else load(() => {});
        t = Math.min(t, film?.end ?? 0);
      }
    }
    showScene(true);
    showKnobs();
    if (film) { strips.forEach((strip) => strip.set(film, hidden() ? null : ghost, hidden())); show(); }
  };
  const reveal = (guess) => {
    guessed = guess;
    enter(scene + 1);
    t = 0;
    if (film && still.matches) seek(film.end); else run(true);
  };

  const CHANGES = { falls: "It falls", stays: "It hardly changes", rises: "It rises" };
  const showScene = (focus) => {
    const own = scenes[scene], parts = [], heading = make("h2", { id: "scene", tabindex: "-1" }, own.title), next = [];
    const onward = (text = "Next", kind = "next") => button(text, () => enter(scene + 1), { class: kind });
    if (own.kind === "guess") {
      parts.push(make("p", {}, ...words(lesson.question)), make("div", { class: "options" }, ...lesson.guesses.map((text, index) => button(text, () => reveal(index), { "data-guess": index + 1 }))));
      next.push(make("span", { class: "note" }, "Guess, or draw the curve in the first chart."), button("Show me", () => reveal(null)));
    } else if (own.kind === "seen") {
      const right = lesson.guesses[lesson.right - 1];
      const verdict = guessed === null ? `The answer: ${right}.` : guessed === lesson.right - 1 ? "You guessed right." : `You guessed “${lesson.guesses[guessed]}”. It is “${right}”.`;
      parts.push(make("p", { class: "verdict" }, lesson.guesses.length ? verdict : lesson.question), make("p", {}, ...words(lesson.seen)), say);
      next.push(onward());
    } else if (own.kind === "step") {
      const [text, , seen] = lesson.steps[own.number], [first] = lesson.figures, done = positions.join() === own.positions.join() && said;
      if (!done) {
        if (said) parts.push(say);
        parts.push(make("p", {}, ...words(text)));
        const { label = first, note } = film ? figureIn(film, first) : {};
        parts.push(
          make("p", { class: "note" }, `What will happen to the ${label}?${note ? ` (${note}.)` : ""}`),
          make("div", { class: "options row" }, ...Object.entries(CHANGES).map(([kind, answer]) => button(answer, () => { chosen = kind; goTo(own.positions); }, { "data-change": kind }))),
        );
      } else {
        const [was, is] = [ghost, film].map((of) => figureIn(of, first)), change = direction(was, is);
        if (chosen) parts.push(make("p", { class: "verdict" }, chosen === change ? "You guessed right." : `You guessed “${CHANGES[chosen]}”. ${CHANGES[change]}.`));
        parts.push(say, seen ? make("p", {}, ...words(seen)) : "");
      }
      next.push(onward(done ? "Next" : "Skip", done ? "next" : ""));
    } else if (own.kind === "end") {
      parts.push(make("p", {}, ...words(lesson.answer)), make("p", { class: "note" }, "Now turn the knobs as you like."), say);
      next.push(onward());
    } else {
      const at = lessons.indexOf(entry);
      parts.push(make("p", {}, "Try it there, with a second machine at the far end:"), make("pre", {}, lesson.command), make("p", { class: "note" }, "Or put your own programs behind this network, as root:"), make("pre", {}, `giusto link ${entry.name} -- COMMAND`));
      if (at + 1 < lessons.length) next.push(button(`Next lesson: ${lessons[at + 1].lesson.title}`, () => openLesson(lessons[at + 1]), { class: "next" }));
      next.push(button("All controls of this scenario", leaveLesson));
    }
    if (scene) next.unshift(button("Back", () => enter(scene - 1)));
    const dots = make("span", { class: "steps", "aria-hidden": "true" }, scenes.map((_, index) => (index === scene ? "●" : "○")).join(" "));
    heading.append(dots);
    card.replaceChildren(heading, ...parts.filter(Boolean), wrong, make("div", { class: "onward" }, ...next));
    if (focus) heading.focus({ preventScroll: true });
  };

  // The values behind the charts and of the figures.
  const numbers = () => {
    const each = Math.max(1, Math.round(film.run.timeline.t_s.length / 20)), shown = lesson.charts.map((text) => linesIn(film, text));
    const columns = shown.flatMap(({ title, lines, show }) => lines.map(({ name, values }) => [name ? `${title}: ${name}` : title, values, show]));
    const rows = film.run.timeline.t_s.map((at, window) => [at, window]).filter(([, window]) => window % each === 0);
    const grid = make(
      "table", {}, make("caption", {}, "Values behind the charts, as means of short intervals"),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "time"), ...columns.map(([name]) => make("th", { scope: "col", class: "n" }, name)))),
      make("tbody", {}, ...rows.map(([at, window]) => make("tr", {}, make("th", { scope: "row" }, `${at.toFixed(1)} s`), ...columns.map(([, values, format]) => make("td", { class: "n" }, format(values[window])))))),
    );
    const dialog = make("dialog", { class: "sheet figures numbers", "aria-label": "Numbers" }, make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values behind the charts" }, grid), make("div", { class: "tools" }, ...dataButtons(() => [[entry.name, film.run]]), button("Close", () => dialog.close())));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  };

  place.append(
    make("nav", { class: "where", "aria-label": "Lessons" }), card,
    make("div", { class: "scene" }, stage.canvas, make("div", { class: "transport" }, play, slider, clock, pace, button("Numbers", () => { if (film) numbers(); }))),
    charts, turn,
  );
  sizeObserver(() => show()).observe(stage.canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { stage.colours(); show(); });

  const open = (next, settings) => {
    run(false);
    [entry, lesson, film, base, ghost, t, guessed, said, chosen] = [next, next.lesson, null, null, null, 0, null, "", null];
    positions = positionsOf(settings);
    const steps = lesson.steps.map(([text, own], number) => ({ kind: "step", number, title: `Change ${number + 1} of ${lesson.steps.length}`, positions: positionsOf(own) ?? positions }));
    scenes = [...(lesson.guesses.length ? [{ kind: "guess", title: "What do you expect?" }] : []), { kind: "seen", title: "What happens" }, ...steps, { kind: "end", title: "Why" }, { kind: "own", title: "Your own network" }];
    const at = lessons.indexOf(entry), to = (place, text) => lessons[place] && button(text, () => openLesson(lessons[place]), { "aria-label": `Lesson ${place + 1}: ${lessons[place].lesson.title}` });
    place.querySelector("nav").replaceChildren(...[button("All lessons", () => { close(); showGallery(); }, { class: "all" }), to(at - 1, "‹"), make("span", {}, make("span", { class: "wide" }, "Lesson "), `${at + 1} of ${lessons.length}`), to(at + 1, "›")].filter(Boolean));
    document.querySelector("h1").textContent = lesson.title;
    document.title = `${lesson.title} – giusto explore`;
    strips = lesson.charts.map((text, number) => new Strip(text, seek, number));
    charts.replaceChildren(...strips.map(({ element }) => element));
    speed = lesson.speed;
    pace.value = SPEEDS.reduce((near, [own]) => (Math.abs(Math.log(own / speed)) < Math.abs(Math.log(near / speed)) ? own : near), 1);
    speed = Number(pace.value);
    document.body.classList.add("learning");
    document.body.classList.remove("choosing");
    scrollTo(0, 0);
    remember();
    measure();
    enter(settings.length ? scenes.length - 2 : 0);
    load(() => { if (!hidden() && !still.matches) setTimeout(() => run(true)); });
  };
  const close = () => { run(false); entry = null; wanted += 1; document.body.classList.remove("learning"); };
  return {
    place, open, close,
    // Whether these settings are positions of the knobs.
    fits: (next, settings) => { lesson = next.lesson; const found = lesson.knobs.length > 0 && positionsOf(settings) !== null; lesson = entry?.lesson; return found; },
    get entry() { return entry; },
  };
})();

const openLesson = (entry, settings = []) => learning.open(entry, settings);
// The same scenario with all its controls.
const leaveLesson = () => {
  learning.close();
  document.querySelector("h1").textContent = page.title;
  shownCompare = "";
  showCompare();
  ask();
};
