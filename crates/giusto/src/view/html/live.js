
// The page of a run while it lasts. It computes no figure: samples come from the server, and stay as they come.

// Of each quantity, in the order of the page: title, caption, unit. The server says which place each has in a sample.
const QUANTITIES = {
  received_rate_bps: ["Received rate", "At the receiver, in each interval, at the layer that was asked for; of what a call sends, as its feedback reports it.", "bit/s"],
  sent_rate_bps: ["Sent rate", "At the sender, in each interval, at the layer that was asked for.", "bit/s"],
  target_rate_bps: ["Target rate", "Of the congestion controller.", "bit/s"],
  loss_ratio: ["Loss", "Packets newly missing over those newly missing and received, in each interval.", "ratio"],
  buffer_loss_ratio: ["Loss in the receiver's buffer", "The part of the loss that reached the receiver: the path did not lose it.", "ratio"],
  delay_ms: ["One-way delay", "Mean of the packets of each interval; at a sender, the median of all so far.", "ms"],
  frame_delay_ms: ["Frame delay", "From the capture of a frame until it arrived complete: the mean of each interval.", "ms"],
  queue_delay_ms: ["Queueing delay", "What the mean one-way delay of each interval exceeds the minimum of the stream by.", "ms"],
  sender_queue_ms: ["Sender's queue", "Age of the oldest packet in the sender's queue.", "ms"],
  jitter_ms: ["Jitter", "Interarrival jitter (RFC 3550).", "ms"],
  rtt_ms: ["Round-trip time", "Of a call the latest, else the median of all so far.", "ms"],
};
// Samples that are kept of each stream: a minute of tenths of a second, ten minutes of seconds.
const KEPT = 600;
// Lines are broken where no value came for this long, in seconds: reports of a far end come twice a second.
const MAX_GAP = { fine: 1.6, coarse: 2.6 };
// The charts get at most this share of the time, and each is drawn at most so often.
const DRAWING_SHARE = 0.25, REDRAW_MS = 200;
const TABLE_MS = 250, SPOKEN_MS = 15000;
const MAX_LISTED = 200;

let quantities = [], lastUpdate = 0, more = 0, version = 0;
let paused = false, range = "fine", state = "waiting", finding = null;
const streams = new Map();
const decisions = [];

// The newest samples of a stream, in memory that does not grow.
const ring = () => ({ t: new Float64Array(KEPT), y: quantities.map(() => new Float64Array(KEPT)), from: 0, length: 0 });
const push = (kept, t, sample) => {
  const place = (kept.from + kept.length) % KEPT;
  if (kept.length === KEPT) kept.from = (kept.from + 1) % KEPT; else kept.length++;
  kept.t[place] = t;
  kept.y.forEach((column, index) => { column[place] = sample[index] ?? NaN; });
};
const pointsOf = (kept, column, since, gap) => {
  const x = [], y = [];
  for (let step = 0; step < kept.length; step++) {
    const place = (kept.from + step) % KEPT, value = kept.y[column][place], t = kept.t[place];
    if (t < since || Number.isNaN(value)) continue;
    if (x.length && t - x.at(-1) > gap) { x.push(t); y.push(null); }
    x.push(t);
    y.push(value);
  }
  return { x, y };
};
// The newest value, if it is not too old.
const newest = (kept, column) => {
  for (let step = kept.length - 1; step >= 0; step--) {
    const place = (kept.from + step) % KEPT;
    if (lastUpdate - kept.t[place] > MAX_GAP.fine) return null;
    if (!Number.isNaN(kept.y[column][place])) return kept.y[column][place];
  }
  return null;
};

const significant = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));
const rateText = (bps) => {
  const [size, prefix] = PREFIXES.find(([factor]) => bps * 1.0005 >= factor && factor >= 1) ?? [1, ""];
  return `${significant(bps / size)} ${prefix}bit/s`;
};
const shown = (value, unit) => {
  if (value == null) return "–";
  if (unit === "bit/s") return rateText(value);
  return unit === "ratio" ? `${(value * 100).toFixed(value > 0 && value < 0.1 ? 2 : 1)} %` : `${significant(value)} ms`;
};
const moment = (seconds) => {
  const whole = Math.floor(seconds), two = (value) => String(value).padStart(2, "0");
  return `${two(Math.floor(whole / 60))}:${two(whole % 60)}`;
};

// The head of the page: state, controls, values now.
const headline = document.querySelector(".headline");
const AWAITS = headline.textContent;
const chip = make("span", { class: "state" });
const spoken = make("p", { class: "hidden", "aria-live": "polite", role: "status" });
const pause = make("button", { type: "button" }, "Pause");
const choice = make(
  "select", {},
  make("option", { value: "fine" }, "last minute, every 0.1 s"),
  make("option", { value: "coarse" }, "last 10 minutes, every second"),
);
// Not an output element: screen readers would read each second.
const clock = make("span", { class: "clock" }, "00:00");
const controls = make("div", { class: "controls" }, chip, clock, pause, make("label", {}, "shown: ", choice));
const note = make("p", { class: "caption" });
const nowTitle = heading("Values now");
const nowHead = make("tr", {}), nowBody = make("tbody", {});
const nowTable = make("table", {}, make("caption", { class: "hidden" }, "Values now"), make("thead", {}, nowHead), nowBody);
const nowPart = make("section", { class: "sheet now", "aria-labelledby": nowTitle.id }, nowTitle, note, scrollBox(nowTable, "Table of values now"));
const plots = make("div", { class: "charts" });
const decisionTitle = heading("Decisions");
const decisionHead = ["time", "stream", "target", "cause"].map((name) => make("th", { scope: "col" }, name));
const decisionBody = make("tbody", {});
const decisionTable = make(
  "table", {}, make("caption", { class: "hidden" }, "Decisions of congestion controllers, the latest first"),
  make("thead", {}, make("tr", {}, ...decisionHead)), decisionBody,
);
const decisionBox = scrollBox(decisionTable, "Table of decisions");
decisionBox.firstChild.classList.add("tall");
const decisionPart = make(
  "section", { class: "sheet", "aria-labelledby": decisionTitle.id, hidden: true }, decisionTitle,
  make("p", { class: "caption" }, "Of the congestion controllers, the latest first."), decisionBox,
);
const resultPart = make("div", { class: "result" });
main.querySelector("header").append(controls, spoken);
const footer = main.querySelector("footer");
footer.before(nowPart, plots, decisionPart);
nowPart.before(resultPart);

const STATES = {
  waiting: ["○", "waiting", AWAITS],
  live: ["●", "live", "Live."],
  ended: ["■", "ended", "The run has ended. This page keeps its last picture."],
  lost: ["!", "connection lost", "The connection is lost. This page keeps its last picture and tries again."],
};
const enter = (next) => {
  if (state === next && chip.textContent) return;
  state = next;
  const [sign, name, sentence] = STATES[state];
  chip.className = `state ${state}`;
  chip.replaceChildren(make("span", { "aria-hidden": "true" }, `${sign} `), name);
  spoken.textContent = sentence;
};

// One chart for each quantity that has had a value, with a line for each stream.
const charts = new Map();
const column = (quantity) => quantities.indexOf(quantity);
const has = (quantity) => [...streams.values()].some(({ known }) => known.has(quantity));
const modelOf = (quantity) => {
  const [title, caption, unit] = QUANTITIES[quantity];
  const since = lastUpdate - (range === "fine" ? 60 : 600);
  // A stream without this quantity keeps its place, and so its colour, but is not in the legend.
  const series = [...streams.values()].map(({ name, known, [range]: kept }) => ({
    kind: "line", name: known.has(quantity) ? name : "", points: pointsOf(kept, column(quantity), since, MAX_GAP[range]),
  }));
  const x = { title: "time in s", logarithmic: false, from_zero: false };
  const isScaled = unit === "bit/s" || unit === "ratio";
  const y = { title: isScaled ? title.toLowerCase() : unit, unit: isScaled ? unit : undefined, logarithmic: false, from_zero: true };
  return { title, caption, x, y, series, marks: [], full_width: false, dense: true };
};
const addCharts = () => {
  let isNew = false;
  for (const quantity of Object.keys(QUANTITIES)) {
    if (charts.has(quantity) || !has(quantity)) continue;
    const figure = chartFigure(modelOf(quantity));
    const plot = figure.querySelector(".plot");
    charts.set(quantity, { figure, plot, drawnAt: -Infinity, version: -1, ids: null });
    isNew = true;
  }
  if (!isNew) return;
  const order = Object.keys(QUANTITIES).filter((quantity) => charts.has(quantity));
  const figures = order.map((quantity) => charts.get(quantity).figure);
  figures.forEach((figure) => figure.classList.remove("full"));
  plots.replaceChildren(...figures);
  closeGroup(plots);
  measure();
  tabulate();
};
const redraw = (quantity) => {
  const chart = charts.get(quantity), entry = entries.get(chart.plot), ids = [...streams.keys()];
  // The places of the series have changed: what was hidden stays hidden.
  if (chart.ids?.join() !== ids.join()) {
    const hidden = new Set((chart.ids ?? []).filter((_, index) => entry.hidden.has(index)));
    entry.hidden.clear();
    ids.forEach((id, index) => { if (hidden.has(id)) entry.hidden.add(index); });
    chart.ids = ids;
  }
  const model = modelOf(quantity);
  chart.version = version;
  chart.drawnAt = performance.now();
  chart.plot.setAttribute("aria-label", described(model));
  entry.model = entry.drawn ? resolved(model) : model;
  render(entry);
};

// Draws one chart at a time, of those in view the one that is oldest, and then rests.
const drawNext = () => {
  const began = performance.now();
  let rest = 50;
  if (ready && !paused && !document.hidden) {
    const due = [...charts].filter(([, chart]) => (
      chart.version !== version && entries.get(chart.plot).seen && began - chart.drawnAt >= REDRAW_MS
    )).sort(([, one], [, other]) => one.drawnAt - other.drawnAt);
    if (due.length) {
      redraw(due[0][0]);
      rest = Math.max((performance.now() - began) * (1 / DRAWING_SHARE - 1), 10);
    }
  }
  setTimeout(drawNext, rest);
};

// The table of the values now; its rows stay, so that a screen reader keeps its place.
let tabulatedAt = -Infinity, tabulated = null;
const rows = new Map();
const tabulate = () => {
  if (paused) return;
  tabulatedAt = performance.now();
  const order = Object.keys(QUANTITIES).filter((quantity) => charts.has(quantity));
  // Also those that came while the page was paused.
  if (tabulated !== order.join()) {
    tabulated = order.join();
    nowHead.replaceChildren(
      make("th", { scope: "col" }, "stream"),
      ...order.map((quantity) => make("th", { scope: "col", class: "n" }, QUANTITIES[quantity][0])),
    );
    rows.clear();
    nowBody.replaceChildren();
  }
  for (const id of rows.keys()) if (!streams.has(id)) { rows.get(id).row.remove(); rows.delete(id); }
  [...streams].forEach(([id, { name, fine, closed }], place) => {
    if (!rows.has(id)) {
      const key = make("span", { class: "key" });
      const label = make("th", { scope: "row" }, key, name), cells = order.map(() => make("td", { class: "n" }));
      const row = make("tr", {}, label, ...cells);
      rows.set(id, { row, label, cells, key, place: null });
      nowBody.append(row);
    }
    const entry = rows.get(id), { row, cells, label } = entry;
    if (entry.place !== place) Object.assign(entry.key.style, keyStyle(entry.place = place));
    order.forEach((quantity, index) => {
      const text = closed == null ? shown(newest(fine, column(quantity)), QUANTITIES[quantity][2]) : "–";
      if (cells[index].textContent !== text) cells[index].textContent = text;
    });
    if (closed != null && !row.classList.contains("over")) {
      row.classList.add("over");
      label.append(make("small", {}, ` ended at ${moment(closed)}`));
    }
  });
  clock.textContent = moment(lastUpdate);
  const sentence = finding ?? summary();
  if (headline.textContent !== sentence) headline.textContent = sentence;
  note.textContent = more ? `${more} more ${more === 1 ? "stream is" : "streams are"} not shown.` : "";
  note.hidden = !more;
};
const summary = () => {
  const open = [...streams.values()].filter(({ closed }) => closed == null);
  if (!streams.size) return state === "ended" ? "There were no streams." : AWAITS;
  // What the far end of a call receives is not added to what this end does.
  const incoming = open.filter(({ known }) => !known.has("sent_rate_bps"));
  const sum = (quantity) => {
    const from = quantity === "received_rate_bps" && incoming.length ? incoming : open;
    const values = from.map(({ fine }) => newest(fine, column(quantity))).filter((value) => value != null);
    return values.length ? values.reduce((all, value) => all + value, 0) : null;
  };
  const count = open.length + more;
  const all = count === 1 ? "1 stream" : count ? `${count} streams` : "No open streams";
  const parts = [];
  for (const [quantity, word] of [["received_rate_bps", "received"], ["sent_rate_bps", "sent"]]) {
    const rate = sum(quantity);
    if (rate != null) parts.push(`${rateText(rate)} ${word}`);
  }
  const most = (quantity) => Math.max(...open.map(({ fine }) => newest(fine, column(quantity)) ?? -1));
  const [loss, own] = ["loss_ratio", "buffer_loss_ratio"].map(most);
  if (loss >= 0) parts.push(loss > 0 ? `loss up to ${shown(loss, "ratio")}` : "no loss");
  if (own > 0) parts.push(`up to ${shown(own, "ratio")} in the receiver's buffer, not on the path`);
  // Rates and losses are those of the streams that are shown.
  const head = more ? `${all}; the ${open.length} shown` : all;
  return `${parts.length ? `${head}${more ? ": " : ", "}${parts.join(", ")}` : head}.`;
};
setInterval(() => { if (state === "live" && !paused) spoken.textContent = summary(); }, SPOKEN_MS);

const decisionRow = ({ t, id, from_bps: from, to_bps: to, cause }) => make(
  "tr", {},
  make("th", { scope: "row", class: "n" }, `${t.toFixed(1)} s`), make("td", {}, streams.get(id)?.name ?? "–"),
  make("td", { class: "short" }, `${rateText(from)} → ${rateText(to)}`), make("td", { class: "long" }, cause),
);
const listDecisions = () => {
  if (paused || !decisions.fresh) return;
  const fresh = decisions.splice(0).slice(-MAX_LISTED);
  decisions.fresh = false;
  decisionPart.hidden = false;
  decisionBody.prepend(...fresh.reverse().map(decisionRow));
  while (decisionBody.childElementCount > MAX_LISTED) decisionBody.lastElementChild.remove();
};

// The final result stands above the charts.
const showResult = (report) => {
  if (!report) return;
  const makers = { cards, table, prose };
  finding = report.headline;
  nowPart.hidden = true;
  resultPart.replaceChildren(...report.sections.map(({ kind, content }) => makers[kind](content)));
  measure();
};

const showFailure = (error) => { if (error) finding = `The run failed: ${error}`; };

const take = {
  name: ({ id, name, closed_s: closed = null }) => {
    streams.set(id, { name, fine: ring(), coarse: ring(), known: new Set(), closed });
    tabulate();
  },
  close: ({ id, closed_s: closed }) => { const stream = streams.get(id); if (stream) stream.closed = closed; },
  forget: ({ id }) => { streams.delete(id); },
  update: (level, { t, more: others, s }) => {
    more = others;
    for (const [id, sample] of s) {
      const stream = streams.get(id);
      if (!stream) continue;
      push(stream[level], t, sample);
      sample.forEach((value, index) => { if (value != null) stream.known.add(quantities[index]); });
    }
    lastUpdate = Math.max(lastUpdate, t);
    version++;
    if (s.length && state !== "ended") enter("live");
  },
  decision: (decision) => {
    decisions.push(decision);
    if (decisions.length > 2 * MAX_LISTED) decisions.splice(0, MAX_LISTED);
    decisions.fresh = true;
  },
};
const refresh = () => {
  addCharts();
  if (performance.now() - tabulatedAt >= TABLE_MS) { tabulate(); listDecisions(); }
};
const end = () => {
  enter("ended");
  if (paused) pause.click();
  pause.disabled = true;
  tabulate();
  listDecisions();
};

let source = null;
const connect = () => {
  source = new EventSource("events");
  const on = (name, handle) => source.addEventListener(name, ({ data }) => { handle(JSON.parse(data)); refresh(); });
  on("history", (history) => {
    quantities = history.quantities;
    streams.clear();
    decisions.length = 0;
    decisionBody.replaceChildren();
    history.streams.forEach(take.name);
    for (const level of ["coarse", "fine"]) history[level].forEach((update) => take.update(level, update));
    history.decisions.forEach(take.decision);
    if (!history.ended) enter(streams.size ? "live" : "waiting");
    showResult(history.result);
    showFailure(history.error);
    tabulated = null;
    tabulate();
    listDecisions();
    if (history.ended) { source.close(); end(); }
  });
  on("name", take.name);
  on("close", take.close);
  on("forget", take.forget);
  on("fine", (update) => take.update("fine", update));
  on("coarse", (update) => take.update("coarse", update));
  on("decision", take.decision);
  on("result", showResult);
  on("failed", ({ error }) => showFailure(error));
  on("end", () => { source.close(); end(); });
  // The browser tries again by itself while the server answers, and gives up when it refuses.
  source.addEventListener("error", () => { if (state !== "ended") enter("lost"); });
};

pause.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Resume" : "Pause";
  spoken.textContent = paused ? "Paused. What comes meanwhile is kept." : "Resumed.";
  if (!paused) { tabulate(); listDecisions(); }
});
choice.addEventListener("change", () => {
  range = choice.value;
  // Also while the page is paused.
  [...charts].filter(([, { plot }]) => entries.get(plot).drawn).forEach(([quantity]) => redraw(quantity));
});
enter("waiting");
connect();
drawNext();
