#!/usr/bin/env node
// Compares the records of scenario files: those of the engine of crates/web, which Node runs, and those that the command prints.
//
//     node lab/web/records.mjs target/web/giusto.wasm.gz target/release/giusto [--every N] [--speed] FILE...
//
// They must be equal byte for byte, but for the time that a run took. `--every N` takes each N-th file. `--speed` runs one after the other
// and prints the time of each run.

import { execFile } from "node:child_process";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { promisify } from "node:util";

const MAX_OUTPUT = 1 << 28;
const decoder = new TextDecoder(), encoder = new TextEncoder();
const run = promisify(execFile);

/** An instance of the engine: a function from a request to its answer. */
export const start = (module) => {
  const wasm = new WebAssembly.Instance(module, {}).exports;
  const output = () => decoder.decode(new Uint8Array(wasm.memory.buffer, wasm.giusto_output(), wasm.giusto_length()));
  return (request) => {
    const bytes = encoder.encode(JSON.stringify(request));
    const place = wasm.giusto_input(bytes.length);
    new Uint8Array(wasm.memory.buffer, place, bytes.length).set(bytes);
    let problems;
    try {
      problems = wasm.giusto_answer();
    } catch (error) {
      throw new Error(`${error.message}: ${output()}`);
    }
    if (problems) throw new Error(output());
    return output();
  };
};

export const compiled = (path) => {
  const bytes = readFileSync(path);
  return new WebAssembly.Module(path.endsWith(".gz") ? gunzipSync(bytes) : bytes);
};

const withoutTime = (record) => record.replace(/"wall_s": [^,\n]*/g, '"wall_s": 0').trim();

const scenarios = (paths) => paths.flatMap((path) => (
  statSync(path).isDirectory() ? scenarios(readdirSync(path).sort().map((name) => join(path, name))) : path.endsWith(".toml") ? [path] : []
));

// The first difference of two texts, with what is around it.
const difference = (one, other) => {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  const around = (text) => JSON.stringify(text.slice(Math.max(at - 60, 0), at + 60));
  return `at character ${at}:\n  engine  ${around(one)}\n  command ${around(other)}`;
};

// The scenario file with the files that it names.
const fileOf = (path) => {
  const text = readFileSync(path, "utf8");
  const names = [...text.matchAll(/"([^"\n]+\.(?:csv|mahimahi))"/g)].map(([, name]) => name);
  const beside = Object.fromEntries(names.map((name) => [name, readFileSync(resolve(dirname(path), name), "utf8")]));
  return { name: path, text, beside };
};

// The record that the command prints; its status is 1 where an expectation is not met.
const recordOf = async (command, path) => {
  try {
    return (await run(command, ["sim", path, "--json"], { maxBuffer: MAX_OUTPUT })).stdout;
  } catch (error) {
    if (error.code !== 1 || !error.stdout) throw error;
    return error.stdout;
  }
};

const main = async () => {
  const [engine, command, ...rest] = process.argv.slice(2);
  const flag = (name, values) => { const place = rest.indexOf(name); return place < 0 ? [] : rest.splice(place, 1 + values); };
  const hasSpeed = flag("--speed", 0).length > 0, every = Number(flag("--every", 1)[1] ?? 1);
  const files = scenarios(rest).filter((_, place) => place % every === 0);
  if (!files.length) throw new Error("usage: records.mjs ENGINE COMMAND [--every N] [--speed] FILE...");
  const module = compiled(engine);
  let passed = 0, failed = 0, ours = 0, theirs = 0;
  for (const path of files) {
    try {
      const native = recordOf(command, path);
      const ask = start(module);
      // Both at the same time, unless their speed is to be known.
      if (hasSpeed) await native;
      const began = performance.now();
      const found = withoutTime(ask({ simulate: fileOf(path) }));
      const took = performance.now() - began;
      const expected = await native;
      if (hasSpeed) {
        const wall = JSON.parse(expected).wall_s * 1e3;
        [ours, theirs] = [ours + took, theirs + wall];
        console.log(`${path}: engine ${took.toFixed(0)} ms, command ${wall.toFixed(0)} ms`);
      }
      if (found === withoutTime(expected)) passed += 1;
      else throw new Error(`the records differ ${difference(found, withoutTime(expected))}`);
    } catch (error) {
      failed += 1;
      console.log(`${path}: ${error.message}`);
    }
  }
  if (hasSpeed) console.log(`engine ${(ours / 1e3).toFixed(2)} s, command ${(theirs / 1e3).toFixed(2)} s`);
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
};

await main();
