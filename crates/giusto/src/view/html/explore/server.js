// The engine of the page is the server that it came from.
const engine = (() => {
  const asked = async (work) => {
    try {
      return await work();
    } catch (error) {
      if (error instanceof TypeError) throw new Error("the server does not answer: start giusto explore again");
      throw error;
    }
  };
  const post = async (path, body, signal) => {
    const answer = await fetch(path, { method: "POST", body: JSON.stringify(body), signal });
    if (!answer.ok) throw new Error(await answer.text());
    return answer;
  };
  return {
    aboutLinks: "It works as long as this giusto explore runs.",
    // Calls `receive` with each part of the answer.
    run: (question, signal, receive) => asked(async () => {
      const answer = await post("run", question, signal);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        lines.forEach((line) => receive(JSON.parse(line)));
      }
    }),
    film: (side) => asked(async () => (await post("film", side)).json()),
    save: (side) => asked(async () => (await post("save", side)).json()),
    sketch: async (name) => {
      const answer = await fetch(`sketch?${name}`);
      return answer.ok ? answer.json() : null;
    },
  };
})();
