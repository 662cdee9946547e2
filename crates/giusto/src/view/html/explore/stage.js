/* The moving picture of a lesson: packets of one run as dots, driven by its events */

// Units of the times of a film in a second.
const TICKS = 10_000;

// The first place whose value is above `value`.
const above = (sorted, value) => {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] > value) high = middle; else low = middle + 1;
  }
  return low;
};

// A film with its times in seconds from the start of the run, -1 where there is none.
const readFilm = ({ record: run, link, packets, frames, end_s: end }) => {
  const count = packets.length / 6, column = () => new Float64Array(count);
  const film = { run, end, count, flow: new Uint16Array(count), sent: column(), queued: column(), left: column(), over: column(), fate: new Uint8Array(count) };
  // Of flows beside the link that is shown nothing can be seen.
  const shown = run.links[link].id, groups = [...new Set(run.flows.filter(({ path }) => path.includes(shown)).map(({ group }) => group))];
  const arrivals = groups.map(() => ({ at: [], delay: [], frames: 0 })), group = run.flows.map((own) => groups.indexOf(own.group));
  let sent = 0, longest = 0;
  for (let place = 0; place < count; place++) {
    const [flow, since, toQueue, inQueue, toEnd, fate] = packets.slice(6 * place, 6 * place + 6);
    sent += since;
    // A full queue drops what it has not let in.
    const queued = toQueue >= 0 ? sent + toQueue : (fate & 3) === 2 && !(flow & 1) ? sent + toEnd : -1, left = queued < 0 || inQueue < 0 ? -1 : queued + inQueue;
    const over = toEnd < 0 ? -1 : toQueue < 0 ? sent + toEnd : Math.max(left, queued) + toEnd;
    film.flow[place] = flow;
    film.fate[place] = fate;
    film.sent[place] = sent / TICKS;
    film.queued[place] = queued < 0 ? -1 : queued / TICKS;
    film.left[place] = left < 0 ? -1 : left / TICKS;
    film.over[place] = over < 0 ? -1 : over / TICKS;
    longest = Math.max(longest, over < 0 ? 0 : (over - sent) / TICKS);
    if ((fate & 3) === 1 && !(flow & 1) && group[flow >> 1] >= 0) arrivals[group[flow >> 1]].at.push([over / TICKS, (over - sent) / TICKS]);
  }
  // A frame is what a viewer waits for; a flow without frames delivers packets.
  for (let place = 0; place < frames.length; place += 4) {
    const own = arrivals[group[frames[place]]];
    if (!own) continue;
    if (!own.frames++) own.at = [];
    own.at.push([frames[place + 1] / TICKS, frames[place + 2] / TICKS]);
  }
  for (const own of arrivals) {
    own.at.sort((a, b) => a[0] - b[0]);
    own.delay = own.at.map(([, delay]) => delay);
    own.at = own.at.map(([at]) => at);
  }
  // Packets in the queue: how many came and how many went until a time.
  const came = film.queued.filter((at) => at >= 0).sort();
  const gone = film.queued.map((at, place) => (at < 0 ? -1 : film.left[place] >= 0 ? film.left[place] : film.over[place])).filter((at) => at >= 0).sort();
  const backlog = (at) => above(came, at) - above(gone, at);
  let most = 0;
  for (let place = 0, out = 0; place < came.length; place++) {
    while (out < gone.length && gone[out] <= came[place]) out += 1;
    most = Math.max(most, place + 1 - out);
  }
  const counted = (...fates) => film.over.filter((_, place) => fates.includes(film.fate[place] & 3)).sort();
  return Object.assign(film, { link: run.links[link], slow: run.timeline.links[link], groups, group, arrivals, longest, backlog, most, drops: counted(2), losses: counted(3) });
};

const milliseconds = (ms) => {
  if (ms == null) return "–";
  if (ms >= 1000) return `${(ms / 1000).toFixed(ms >= 10_000 ? 0 : 1)} s`;
  return `${ms >= 10 ? ms.toFixed(0) : ms.toFixed(1)} ms`;
};
const bits = (bps) => {
  if (bps == null) return "–";
  const [size, prefix] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([own]) => bps >= own) ?? [1, ""];
  return `${Number((bps / size).toPrecision(bps / size >= 100 ? 3 : 2))} ${prefix}bit/s`;
};

// The window of the timeline at a time.
const windowAt = ({ run: { timeline } }, t) => Math.min(Math.floor(t / timeline.width_s), timeline.t_s.length - 1);
const rateOf = (film, group, window) => film.run.timeline.flows.reduce((sum, own, place) => (film.group[place] === group ? sum + (own.received_rate_bps[window] ?? 0) : sum), 0);

// What the far end of a group of flows has at a time: the delay of what arrived last, and since when.
const atScreen = (film, group, t) => {
  const { at, delay, frames } = film.arrivals[group], place = above(at, t) - 1;
  return { delay: place < 0 ? null : delay[place], since: place < 0 ? null : t - at[place], count: place + 1, isVideo: frames > 0 };
};
// A picture that stands for longer is frozen.
const FROZEN_S = 0.3;

class Stage {
  constructor() {
    this.canvas = make("canvas", { role: "img", class: "stage" });
    this.paint = this.canvas.getContext("2d");
    this.colours();
  }

  colours() {
    this.ink = Object.fromEntries(["ink", "soft", "line", "sheet", "bad", "accent", "code", "good"].map((name) => [name, css(`--${name}`)]));
    this.series = Array.from({ length: COLOURS }, (_, index) => css(`--series-${index}`));
    this.marked = css("--mark-0");
  }

  text(content, x, y, { colour = this.ink.soft, size = 12, align = "left", weight = 400 } = {}) {
    const { paint } = this;
    paint.font = `${weight} ${size}px system-ui, sans-serif`;
    paint.textAlign = align;
    paint.fillStyle = colour;
    paint.fillText(content, x, y);
  }

  // The network at time `t`, of which `speed` seconds pass in one; `ghost` is the film before the last change.
  draw(film, ghost, t, speed, isHidden) {
    const { canvas, paint, ink } = this, { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) return;
    const density = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * density) || canvas.height !== Math.round(height * density)) {
      canvas.width = Math.round(width * density);
      canvas.height = Math.round(height * density);
    }
    paint.setTransform(density, 0, 0, density, 0, 0);
    paint.clearRect(0, 0, width, height);
    const { run, groups } = film, narrow = width < 620, size = narrow ? 11 : 13;
    const left = narrow ? 34 : 86, right = width - (narrow ? 50 : 120), exit = narrow ? width * 0.6 : width * 0.57, entry = narrow ? 84 : width * 0.22;
    const deep = Math.min(height * 0.5, 280), middle = 34 + deep / 2 + Math.max(0, (height - deep - 120) / 3), lane = height - 24;
    const row = (group) => middle + (group - (groups.length - 1) / 2) * Math.min(narrow ? 62 : 120, deep / Math.max(groups.length - 0.6, 1));
    const window = windowAt(film, t), slow = film.slow, capacity = slow.capacity_bps[window];
    const widest = Math.max(...slow.capacity_bps.map((own) => own ?? 0), 1);

    // The wire: as thick as it is fast.
    const thick = capacity == null ? 14 : 3 + 19 * capacity / widest;
    paint.fillStyle = ink.code;
    paint.strokeStyle = ink.line;
    paint.fillRect(exit, middle - thick / 2, right - exit - 26, thick);
    paint.strokeRect(exit, middle - thick / 2, right - exit - 26, thick);
    this.text(film.link.rate === "unlimited" ? "" : bits(capacity), (exit + right - 26) / 2, middle - thick / 2 - 7, { size, align: "center" });
    paint.beginPath();
    paint.moveTo(right, lane);
    paint.lineTo(left, lane);
    paint.setLineDash([3, 5]);
    paint.stroke();
    paint.setLineDash([]);
    if (!narrow) this.text(film.flow.some((flow) => flow & 1) ? "answers go back" : "", (left + right) / 2, lane + 16, { size: 11, align: "center" });

    // The queue: a cell for each packet, which leaves at the right.
    const fair = /fq/i.test(film.link.queue), lanes = fair ? groups.length : 1;
    let high = deep / lanes;
    const most = Math.max(film.most, ghost?.most ?? 0, 24), sparse = most < 60;
    const cell = Math.min(Math.max(Math.floor(2 * Math.sqrt((exit - entry) * deep / most)) / 2, 2), narrow ? 11 : sparse ? 22 : 15);
    // A short queue is about as high as it is long.
    const rows = Math.max(1, Math.min(Math.floor(high / cell), Math.max(4, Math.ceil(Math.sqrt(most / lanes)))));
    const extent = (packets) => Math.min(Math.ceil(packets / (rows * lanes)) * cell, exit - entry);
    high = rows * cell;
    const tall = high * lanes, top = middle - tall / 2, room = Math.max(extent(film.most), cell * 2);
    paint.strokeStyle = ink.soft;
    paint.strokeRect(exit - room - 3, top - 3, room + 6, tall + 6);
    for (let own = 1; own < lanes; own++) paint.strokeRect(exit - room - 3, top + own * high, room + 6, 0);
    const waiting = Array.from({ length: lanes }, () => []), backlog = film.backlog(t), tail = Math.max(exit - extent(backlog) - cell, entry - 6);
    const inQueue = slow.queue_delay_mean_ms[window];
    const filled = isHidden ? "the queue" : `${backlog} ${backlog === 1 ? "packet waits" : "packets wait"}${inQueue == null ? "" : `, ${milliseconds(inQueue)}`}`;
    this.text(filled, exit + 4, top - 11, { size, align: "right", colour: ink.ink, weight: 600 });
    if (ghost && !isHidden) {
      const waited = ghost.backlog(Math.min(t, ghost.end)), was = exit - extent(waited);
      paint.strokeStyle = ink.bad;
      paint.setLineDash([5, 4]);
      paint.strokeRect(was - 2, top - 6, exit - was + 4, tall + 12);
      paint.setLineDash([]);
      this.text(`before: ${waited}`, Math.min(was - 2, exit - room - 3) - 6, top + tall + 6, { size: 11, colour: ink.bad, align: "right" });
    }

    // Packets.
    const lead = 0.25 * speed, fall = 0.8 * speed, dot = narrow ? 2.6 : sparse ? 5 : 3.6;
    const point = (x, y, colour, { radius = dot, hollow = false, alpha = 1 } = {}) => {
      paint.globalAlpha = alpha;
      paint.beginPath();
      paint.arc(x, y, radius, 0, 7);
      if (hollow) { paint.strokeStyle = colour; paint.lineWidth = 1.6; paint.stroke(); paint.lineWidth = 1; } else { paint.fillStyle = colour; paint.fill(); }
      paint.globalAlpha = 1;
    };
    const falling = (x, y, since) => {
      const part = since / fall;
      if (part > 1) return;
      paint.globalAlpha = 1 - part * part;
      this.text("✕", x, y + 8 + part * (lane - y - 16), { colour: ink.bad, size: 15, weight: 700, align: "center" });
      paint.globalAlpha = 1;
    };
    const from = isHidden ? film.count : above(film.sent, t - film.longest - fall);
    for (let place = from; place < film.count && film.sent[place] <= t + lead; place++) {
      const flow = film.flow[place], group = film.group[flow >> 1], colour = this.series[group % COLOURS];
      const sent = film.sent[place], queued = film.queued[place], gone = film.left[place], over = film.over[place], fate = film.fate[place] & 3;
      if (group < 0) continue;
      const isOver = over >= 0 && t >= over, y = row(group);
      if (flow & 1) {
        if (t < sent || isOver || over < 0) continue;
        point(right - (right - left) * (t - sent) / Math.max(over - sent, 1e-4), lane, colour, { radius: dot * 0.8, hollow: true });
      } else if (queued < 0) {
        if (t >= sent && !isOver && over >= 0) point(left + (right - left) * (t - sent) / (over - sent), y - 16, colour);
      } else if (t < queued) {
        const part = 1 - (queued - t) / Math.max(queued - sent, lead);
        if (part >= 0) point(left + (tail - left) * part, y + (middle - y) * part, colour);
      } else if (gone < 0 ? !isOver : t < gone) {
        waiting[fair ? group : 0].push([gone < 0 ? over < 0 ? Infinity : over : gone, queued, colour]);
      } else if (gone < 0) {
        // Dropped: at the tail of a full queue, or by its management.
        falling(over - queued < 1e-3 ? tail : exit - cell / 2, middle, t - over);
      } else if (isOver) {
        if (fate === 3) falling(exit + (right - exit) * 0.4, middle, t - over);
      } else if (over >= 0) {
        const part = (t - gone) / Math.max(over - gone, 1e-4), bend = Math.max(0, (part - 0.7) / 0.3);
        const x = exit + (right - 24 - exit) * part, bent = middle + (y - middle) * bend;
        if (film.fate[place] & 4) point(x, bent, this.marked, { radius: dot + 2.4, hollow: true });
        point(x, bent, colour);
      }
    }
    waiting.forEach((packets, number) => {
      packets.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      packets.forEach(([, , colour], rank) => {
        paint.fillStyle = colour;
        paint.fillRect(exit - (Math.floor(rank / rows) + 1) * cell, top + number * high + (rank % rows) * cell, Math.max(cell - (cell > 4 ? 1 : 0.5), 1), Math.max(cell - (cell > 4 ? 1 : 0.5), 1));
      });
    });
    const dropped = above(film.drops, t), lost = above(film.losses, t);
    const fallen = [dropped && `${dropped} dropped by the queue`, lost && `${lost} lost on the wire`].filter(Boolean).join(", ");
    if (!isHidden && fallen) this.text(fallen, exit, lane - 12, { colour: ink.bad, size, align: "center", weight: 600 });

    // The ends.
    groups.forEach((name, group) => {
      const y = row(group), colour = this.series[group % COLOURS], flows = run.flows.filter((own) => own.group === name);
      const { delay, since, count, isVideo } = atScreen(film, group, t);
      point(left, y, colour, { radius: narrow ? 6 : 9 });
      this.text(flows.length > 1 ? `${flows.length} × ${name}` : name, narrow ? 2 : left, y - (narrow ? 11 : 17), { colour: ink.ink, size, align: narrow ? "left" : "center", weight: 600 });
      const isTcp = flows[0].kind === "tcp", started = !isHidden && count > 0, frozen = started && isVideo && since > FROZEN_S;
      paint.fillStyle = ink.sheet;
      paint.strokeStyle = colour;
      paint.lineWidth = 2.5;
      paint.beginPath();
      paint.roundRect(right - 20, y - 17, 40, 30, 5);
      paint.fill();
      paint.stroke();
      paint.lineWidth = 1;
      if (isVideo) {
        // The hand moves on with each complete frame.
        const angle = isHidden ? 0 : count * 0.35;
        paint.strokeStyle = frozen ? ink.bad : colour;
        paint.lineWidth = 3;
        paint.beginPath();
        paint.moveTo(right, y - 2);
        paint.lineTo(right + 11 * Math.cos(angle), y - 2 + 11 * Math.sin(angle));
        paint.stroke();
        paint.lineWidth = 1;
      } else if (isTcp) {
        const share = isHidden ? 0 : Math.min(rateOf(film, group, window) / widest, 1);
        paint.fillStyle = colour;
        paint.fillRect(right - 15, y + 8 - 20 * share, 30, 20 * share);
      } else if (started) {
        const loud = Math.max(0, 1 - since * 12);
        for (const ring of [4, 8]) point(right, y - 2, colour, { radius: ring + 2 * loud, hollow: true, alpha: 0.35 + 0.65 * loud });
      }
      const late = { align: narrow ? "right" : "left", size, weight: 600, colour: delay > 0.4 ? ink.bad : ink.ink };
      const at = narrow ? width - 2 : right + 26, below = narrow ? y + 26 : y - 4;
      if (isHidden) return;
      if (isTcp) this.text(bits(rateOf(film, group, window)), at, below, { ...late, colour: ink.ink });
      else if (started) this.text(frozen ? "frozen" : `${milliseconds(1000 * delay)} late`, at, below, frozen ? { ...late, colour: ink.bad } : late);
      if (!isTcp && !narrow) this.text(bits(rateOf(film, group, window)), at, y + 13, { size: 12 });
    });
  }

  // What can be seen, for readers who cannot see it.
  describe(film, t) {
    const window = windowAt(film, t);
    const ends = film.groups.map((name, group) => {
      const { delay, isVideo } = atScreen(film, group, t);
      return `${name}: ${bits(rateOf(film, group, window))}${delay == null ? "" : `, ${isVideo ? "frame delay" : "delay"} ${milliseconds(1000 * delay)}`}`;
    });
    this.canvas.setAttribute("aria-label", `Network at ${t.toFixed(1)} s. ${film.backlog(t)} packets wait in the queue, ${above(film.drops, t)} were dropped. ${ends.join("; ")}.`);
  }
}
