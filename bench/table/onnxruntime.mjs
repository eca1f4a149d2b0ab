// Times a model in ONNX Runtime by its package for Node, where Python has none. Prints one JSON line
// like that of side.py.
//
//   node onnxruntime.mjs <package> model.onnx input.f32 1x3x224x224 <threads> <seconds>
import fs from "node:fs";
import { createRequire } from "node:module";
import { performance } from "node:perf_hooks";

const [packageFolder, model, input, shape, threads, seconds] = process.argv.slice(2);
const ort = createRequire(import.meta.url)(packageFolder);
const session = await ort.InferenceSession.create(model, {
  executionProviders: ["cpu"],
  intraOpNumThreads: Number(threads),
  interOpNumThreads: 1,
});
const bytes = fs.readFileSync(input);
const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const feeds = { [session.inputNames[0]]: new ort.Tensor("float32", values, shape.split("x").map(Number)) };

async function call() {
  const begin = performance.now();
  const results = await session.run(feeds);
  return { ms: performance.now() - begin, results };
}

const first = await call();
let sum = 0;
let count = 0;
for (const name of session.outputNames) {
  for (const value of first.results[name].data) {
    sum += Math.abs(value);
    count += 1;
  }
}
await call();
const times = [];
const start = performance.now();
while (times.length < 5 || (performance.now() - start < 1e3 * Number(seconds) && times.length < 1000)) {
  times.push((await call()).ms);
}
times.sort((a, b) => a - b);
const share = (part) => times[Math.floor(part * times.length)];
console.log(JSON.stringify({
  ms: share(0.5),
  low: share(0.1),
  high: share(0.9),
  calls: times.length,
  value: sum / count,
  first_s: first.ms / 1e3,
  peak_mib: process.resourceUsage().maxRSS / 1024,
}));
