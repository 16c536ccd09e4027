// gull beside wllama (llama.cpp in WebAssembly: on the CPU, and with llama.cpp's WebGPU) in one browser on one file.
// usage: bench/web/run peers [--tokens N] [--device swiftshader|default] [--repeat N] [MODEL.gguf]
import fs from 'node:fs';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import {serve} from '../../tests/web/server.mjs';
import {dist, here, launch, models, open, SMOLLM2} from '../../tests/web/browser.mjs';

const {values: options, positionals} = parseArgs({allowPositionals: true, options: {
  tokens: {type: 'string', default: '16'}, repeat: {type: 'string', default: '3'}, device: {type: 'string', default: 'swiftshader'}, only: {type: 'string', default: ''},
}});
const model = path.resolve(positionals[0] ?? path.join(models, SMOLLM2)), tokens = Number(options.tokens);
const PROMPT = 'The sky is blue because the light of the sun is made of many colours, and the air';
const wllama = fileURLToPath(new URL('node_modules/@wllama/wllama/esm', import.meta.url));

/** In the page: every worker of a blob counts the calls of its program into JavaScript from then on. */
function countImports() {
  const prefix = `self.imported = 0;
    { const counted = f => (...args) => { self.imported++; return f(...args); };
      const {Suspending, instantiate} = WebAssembly;
      if (Suspending) WebAssembly.Suspending = class extends Suspending { constructor(f) { super(counted(f)); } };
      const wrap = imports => { for (const module of Object.values(imports ?? {})) for (const [name, f] of Object.entries(module)) if (typeof f === 'function') module[name] = counted(f); return imports; };
      WebAssembly.instantiate = (source, imports) => instantiate(source, wrap(imports));
      WebAssembly.instantiateStreaming = async (source, imports) => instantiate(await (await source).arrayBuffer(), wrap(imports)); }\n`;
  const Plain = Blob;
  window.Blob = class extends Plain {
    constructor(parts = [], how = {}) { super(/javascript/.test(how.type ?? '') ? [prefix, ...parts] : parts, how); }
  };
}

/** In a worker: counts dispatches and submissions from now on. */
function countGpu() {
  self.gpuCalls = {dispatches: 0, submissions: 0};
  const pass = self.GPUComputePassEncoder?.prototype, queue = self.GPUQueue?.prototype;
  if (!pass) return;
  for (const [owner, name, key] of [[pass, 'dispatchWorkgroups', 'dispatches'], [pass, 'dispatchWorkgroupsIndirect', 'dispatches'], [queue, 'submit', 'submissions']]) {
    const plain = owner[name];
    owner[name] = function (...args) { self.gpuCalls[key]++; return plain.apply(this, args); };
  }
}

const engines = {
  async 'gull'(page) {
    await page.evaluate(async () => {
      const {Gull} = await import('/dist/index.js');
      const model = await Gull.load('/model.gguf', {store: false, context: 1024, count: true});
      window.generate = async (prompt, maxTokens) => {
        await model.session.reset();
        const {timings: t, text} = await model.generate(prompt, {temperature: 0, maxTokens, ignoreEog: true}).result;
        return {prompt: t.promptTokens / t.promptSeconds, speed: t.generatedTokens / t.generateSeconds, made: t.generatedTokens, text};
      };
      window.crossings = async () => Object.values((await model.measure()).crossings).reduce((a, b) => a + b, 0);
    });
  },
  ...Object.fromEntries([['wllama, wasm on the CPU, 1 thread', {n_gpu_layers: 0, n_threads: 1}],
    ['wllama, llama.cpp\'s WebGPU', {n_gpu_layers: 999, n_threads: 1}]].map(([name, how]) => [name, page => page.evaluate(async how => {
    const {Wllama} = await import('/wllama/index.js');
    const wllama = new Wllama({default: '/wllama/wasm/wllama.wasm'}, {suppressNativeLog: true});
    wllama.setCompat?.(null);
    const file = await (await fetch('/model.gguf')).blob();
    await wllama.loadModel([new File([file], 'model.gguf')], {n_ctx: 1024, n_parallel: 1, ...how});
    window.generate = async (prompt, max_tokens) => {
      const answer = await wllama.createCompletion({prompt, max_tokens, temperature: 0, ignore_eos: true, cache_prompt: false});
      const t = answer.timings;
      return {prompt: t.prompt_per_second, speed: t.predicted_per_second, made: t.predicted_n, text: answer.choices[0].text};
    };
  }, how)])),
};

const sumOver = async (page, read) => {
  let sum = 0;
  for (const worker of page.workers()) sum += await worker.evaluate(read);
  return sum;
};

async function measure(server, name) {
  const browser = await launch(options.device);
  try {
    const context = await browser.newContext();
    await context.addInitScript(countImports);
    const {page, problems} = await open(context, server.url + 'binding.html');
    const start = performance.now();
    await engines[name](page);
    const loaded = (performance.now() - start) / 1000;
    await page.evaluate(() => window.generate('Hello', 2));   // shaders are compiled
    for (const worker of page.workers()) await worker.evaluate(countGpu);
    const crossings = () => (name === 'gull' ? page.evaluate(() => window.crossings()) : sumOver(page, () => self.imported ?? 0));
    const session = await browser.newBrowserCDPSession();
    const processor = async () => (await session.send('SystemInfo.getProcessInfo')).processInfo.reduce((sum, {cpuTime}) => sum + cpuTime, 0);
    const runs = [], before = await crossings(), begun = await processor();
    for (let i = 0; i < Number(options.repeat); i++) runs.push(await page.evaluate(([prompt, n]) => window.generate(prompt, n), [PROMPT, tokens]));
    const made = runs.reduce((sum, run) => sum + run.made, 0), median = key => runs.map(run => run[key]).sort((a, b) => a - b)[runs.length >> 1];
    const dispatches = await sumOver(page, () => self.gpuCalls.dispatches) / made;
    if (/WebGPU/.test(name) && !dispatches) throw new Error('it puts every layer on the CPU: this adapter is none that it takes (no shader-f16?)');
    return {
      name, loaded, prompt: median('prompt'), speed: median('speed'), processor: (await processor() - begun) / made, crossings: (await crossings() - before) / made,
      dispatches, submissions: await sumOver(page, () => self.gpuCalls.submissions) / made,
      text: runs[0].text, problems,
    };
  } finally { await browser.close(); }
}

const isolation = {'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp', 'cross-origin-resource-policy': 'cross-origin'};
fs.accessSync(model);
const server = await serve({'/': here, '/dist/': dist, '/wllama/': wllama, '/model.gguf': model}, {headers: isolation});
console.log(`${path.basename(model)}, ${tokens} tokens after a prompt, median of ${options.repeat}; processor time, crossings, dispatches and submissions a token of the answer, the prompt's included\n`);
console.log('| | loading | prompt | answer | a token | processor | crossings | dispatches | submissions |\n|---|---|---|---|---|---|---|---|---|');
for (const name of Object.keys(engines).filter(name => name.includes(options.only))) {
  try {
    const r = await measure(server, name);
    console.log(`| ${name} | ${r.loaded.toFixed(1)} s | ${r.prompt.toFixed(1)} t/s | ${r.speed.toFixed(2)} t/s | ${(1000 / r.speed).toFixed(0)} ms | ${r.processor.toFixed(2)} s | ${r.crossings.toFixed(0)} | ${r.dispatches.toFixed(0)} | ${r.submissions.toFixed(1)} |`);
    console.error(`${name}: ${JSON.stringify(r.text)} ${r.problems.join('; ')}`);
  } catch (error) { console.log(`| ${name} | does not run here: ${error.message.split('\n')[0].slice(0, 200)} |`); }
}
await server.close();
