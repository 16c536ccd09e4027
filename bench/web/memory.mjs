// Memory of the browser package while it loads a model: SmolLM2, and a file of 1 GB; from a server without keeping it, from a
// server into the browser's storage, and from there.
// usage: bench/web/run memory [MODEL.gguf]
import fs from 'node:fs';
import path from 'node:path';
import {serve} from '../../tests/web/server.mjs';
import {dist, here, launch, models, open, SMOLLM2} from '../../tests/web/browser.mjs';
import {zeros} from '../../tests/web/synthetic.mjs';

const MiB = 2 ** 20, model = path.resolve(process.argv[2] ?? path.join(models, SMOLLM2));
fs.accessSync(model);
const big = zeros({layers: 4, hidden: 2048, ffn: 8192, heads: 32, kvHeads: 8, vocabulary: 128256});

/** The largest heap of the page's worker, asked for all the time. */
async function watchHeap(context, page) {
  const session = await context.newCDPSession(page), peak = {used: 0, buffers: 0};
  let worker, next = 0, stopped = false;
  session.on('Target.attachedToTarget', event => { if (event.targetInfo.type === 'worker') worker = event.sessionId; });
  session.on('Target.receivedMessageFromTarget', ({message}) => {
    const {usedSize = 0, embedderHeapUsedSize = 0, backingStorageSize = 0} = JSON.parse(message).result ?? {};
    peak.used = Math.max(peak.used, usedSize + embedderHeapUsedSize);
    peak.buffers = Math.max(peak.buffers, backingStorageSize);
  });
  await session.send('Target.setAutoAttach', {autoAttach: true, waitForDebuggerOnStart: false, flatten: false});
  const ended = (async () => {
    while (!stopped) {
      if (worker) await session.send('Target.sendMessageToTarget', {sessionId: worker, message: JSON.stringify({id: ++next, method: 'Runtime.getHeapUsage'})}).catch(() => {});
      await new Promise(resolve => setTimeout(resolve, 20));
    }
  })();
  return async () => { stopped = true; await ended; return peak; };
}

async function load(context, server, url, options) {
  const {page} = await open(context, server.url + 'binding.html');
  const stop = await watchHeap(context, page), begun = performance.now();
  const {wasmBytes, gpu} = await page.evaluate(async ({url, options}) => {
    const {Gull} = await import('/dist/index.js');
    const model = await Gull.load(url, {warm: false, context: 512, ...options});
    const {wasmBytes} = await model.measure(), gpu = (await model.stats()).memory.weights;
    await model.dispose();
    return {wasmBytes, gpu};
  }, {url, options});
  const seconds = (performance.now() - begun) / 1000, peak = await stop();
  await page.close();
  return {seconds, wasmBytes, gpu, ...peak};
}

const server = await serve({'/': here, '/dist/': dist, '/model.gguf': model}, {made: {'/big.gguf': big}});
const browser = await launch();
console.log('| file | from | wasm memory | JS heap | buffers | weights on the GPU | time |\n|---|---|---|---|---|---|---|');
for (const [url, name] of [['/model.gguf', path.basename(model)], ['/big.gguf', `zeros (${(big.size / 1e9).toFixed(2)} GB)`]]) {
  const context = await browser.newContext();
  for (const [from, options] of [['server, not kept', {store: false}], ['server, into storage', {}], ['storage', {}]]) {
    const r = await load(context, server, server.url + url.slice(1), options);
    console.log(`| ${name} | ${from} | ${(r.wasmBytes / MiB).toFixed(1)} MiB | ${(r.used / MiB).toFixed(1)} MiB | ${(r.buffers / MiB).toFixed(1)} MiB | ${(r.gpu / MiB).toFixed(0)} MiB | ${r.seconds.toFixed(1)} s |`);
  }
  await context.close();
}
await browser.close();
await server.close();
