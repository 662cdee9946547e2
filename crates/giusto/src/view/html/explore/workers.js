// The engine of the page is in the page: WebAssembly, in workers. One of them answers; the others run further seeds and controllers for it.
const engine = (() => {
  const MAX_WORKERS = 6;
  // A run that goes on for longer after its question was given up ends with its worker: it cannot be asked to stop.
  const GRACE_MS = 60;
  const began = performance.now();

  const WORKER = `
    let wasm;
    const decoder = new TextDecoder(), encoder = new TextEncoder();
    const output = () => decoder.decode(new Uint8Array(wasm.memory.buffer, wasm.giusto_output(), wasm.giusto_length()));
    onmessage = ({ data: { module, request } }) => {
      try {
        if (module) {
          wasm = new WebAssembly.Instance(module, {}).exports;
          return;
        }
        const bytes = encoder.encode(request);
        const place = wasm.giusto_input(bytes.length);
        new Uint8Array(wasm.memory.buffer, place, bytes.length).set(bytes);
        const problems = wasm.giusto_answer();
        postMessage({ problems, text: output() });
      } catch (error) {
        postMessage({ failed: (wasm && output()) || String(error) });
      }
    };`;
  const script = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));

  const compiled = (async () => {
    const plain = new Blob([bytesOf(document.getElementById("engine"))]).stream().pipeThrough(new DecompressionStream("gzip"));
    const module = await WebAssembly.compileStreaming(new Response(plain, { headers: { "content-type": "application/wasm" } }));
    document.documentElement.dataset.ready = (performance.now() - began).toFixed(1);
    return module;
  })();

  class Problems extends Error {
    constructor(problems) {
      super(problems.join("\n"));
      this.problems = problems;
    }
  }

  // The scenario file of the user, with the files that it names.
  let file = record.own ?? null;

  // A worker, which answers one request after the other.
  class Hand {
    constructor() {
      this.calls = [];
      this.start();
    }
    start() {
      const worker = this.worker = new Worker(script);
      this.isBusy = this.isReady = false;
      const answered = ({ problems, text, failed }) => {
        if (worker !== this.worker) return;
        this.isBusy = false;
        const { resolve, reject, about: what } = this.calls.shift();
        if (failed === undefined) {
          if (problems) reject(new Problems(JSON.parse(text))); else resolve(text);
          this.next();
        } else {
          reject(new Error(`${what}: the simulation failed: ${failed.trim()}. Please report this.`));
          this.restart();
        }
      };
      worker.onmessage = ({ data }) => answered(data);
      worker.onerror = (event) => { if (this.isBusy) answered({ failed: event.message ?? "the worker ended" }); };
      compiled.then((module) => {
        if (worker !== this.worker) return;
        worker.postMessage({ module });
        this.isReady = true;
        // A worker knows the file before anything else.
        if (file && this.calls[0]?.request.file !== file) this.call({ file }, {}, true).catch(() => {}); else this.next();
      }, (error) => this.calls.splice(0).forEach(({ reject }) => reject(new Error(`this browser cannot start the engine: ${error.message}`))));
    }
    // Calls of given-up questions end; the others wait for the new worker.
    restart() {
      this.worker.terminate();
      const [over, calls] = [true, false].map((isOver) => this.calls.filter(({ signal }) => Boolean(signal?.aborted) === isOver));
      this.calls = calls;
      over.forEach(({ reject, signal }) => reject(signal.reason));
      this.start();
    }
    next() {
      if (!this.isReady || this.isBusy || !this.calls.length) return;
      const { request } = this.calls[0];
      this.isBusy = true;
      this.worker.postMessage({ request: typeof request === "string" ? request : JSON.stringify(request) });
    }
    // The answer to a request, as JSON.
    call(request, { signal, what = "giusto" } = {}, isFirst = false) {
      return new Promise((resolve, reject) => {
        this.calls[isFirst ? "unshift" : "push"]({ request, signal, about: what, resolve, reject });
        this.next();
      });
    }
  }

  const hands = [new Hand()];
  const [main] = hands;
  let other = null;
  const helper = (place) => (hands[place] ??= new Hand());
  const aside = () => (other ??= new Hand());
  main.call('"version"').then((version) => {
    if (JSON.parse(version) !== page.version) problems([`the engine in this file is that of giusto ${JSON.parse(version)}, the page of ${page.version}: write it again`]);
  }, (error) => problems([error.message]));

  const run = async (question, signal, receive) => {
    const what = question.sides.map(({ scenario }) => scenario ?? file?.name ?? "scenario").join(", ");
    const options = { signal, what };
    signal.addEventListener("abort", () => setTimeout(() => {
      hands.filter(({ isBusy, calls }) => isBusy && calls[0].signal === signal).forEach((hand) => hand.restart());
    }, GRACE_MS), { once: true });
    const { variants, seeds, picture: only } = JSON.parse(await main.call({ ask: question }, options));
    if (only) {
      if (!signal.aborted) receive(only);
      return;
    }
    const of = variants * seeds;
    const queue = Array.from({ length: of }, (_, index) => [index % variants, Math.floor(index / variants)]);
    let done = 0, firsts = variants, shown;
    const firstShown = new Promise((resolve) => { shown = resolve; });
    const picture = async () => { const text = await main.call('"picture"', options); if (!signal.aborted) receive(JSON.parse(text)); };
    const kept = async ([, seed]) => {
      done += 1;
      if (!seed && !--firsts) {
        await picture();
        shown();
      } else if (seed && !signal.aborted) receive({ kind: "progress", done, of });
    };
    const work = async (hand) => {
      if (hand !== main) await hand.call({ ask: question }, options);
      while (queue.length) {
        signal.throwIfAborted();
        // The one that draws is free as soon as it can draw.
        if (hand === main && queue[0][1] && firsts) { await firstShown; continue; }
        const job = queue.shift();
        if (hand === main) await main.call({ run: job }, options);
        else {
          const record = await hand.call({ lend: job }, options);
          await main.call(`{"keep":[${JSON.stringify(job)},${record}]}`, options);
        }
        await kept(job);
      }
    };
    const most = Math.max(Math.min(navigator.hardwareConcurrency || 1, MAX_WORKERS), 1);
    const helpers = Array.from({ length: Math.min(most, of) - 1 }, (_, place) => helper(1 + place));
    try {
      await Promise.all([main, ...helpers].map(work));
    } finally {
      queue.length = 0;
      shown();
    }
    signal.throwIfAborted();
    if (seeds > 1) await picture();
  };

  // Problems are an answer, too.
  const answered = async (work) => {
    try {
      return await work();
    } catch (error) {
      if (error instanceof Problems) return { problems: error.problems };
      throw error;
    }
  };
  return {
    aboutLinks: "It opens this file as it is now.",
    run: async (question, signal, receive) => {
      const found = await answered(() => run(question, signal, receive));
      if (found?.problems && !signal.aborted) receive({ kind: "problems", problems: found.problems });
    },
    film: (side) => answered(async () => JSON.parse(await main.call({ film: side }, { what: side.scenario }))),
    save: (side) => answered(async () => ({ text: JSON.parse(await aside().call({ save: side })) })),
    sketch: async (name) => JSON.parse(await aside().call({ sketch: name }, { what: name })),
    // Explores another scenario file: its name, its text, and the texts of the files beside it by their names.
    open: (next) => answered(async () => {
      await aside().call({ file: next }, { what: next.name });
      file = next;
      await Promise.all(hands.filter(Boolean).map((hand) => hand.call({ file })));
      return {};
    }),
  };
})();
