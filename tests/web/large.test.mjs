// A file larger than 4 GiB, where offsets need more than 32 bits: read by ranges, kept in storage, and resumed there. It is a tiny
// model behind a gap of 4.5 GiB, so little of it is ever moved. And one of 1 GB that is moved whole, through little memory.
import test, {before, after} from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import {serve} from './server.mjs';
import {launchWithProfile, open, here, dist, scratch} from './browser.mjs';
import {distance, fixture, fixtures, run} from './fixtures.mjs';
import {behind, zeros} from './synthetic.mjs';

const tiny = fixture('llama'), large = behind(path.join(fixtures, tiny.model), 4.5 * 2 ** 30), [head, tail] = large.parts;
let server, browser, page, problems, url;

before(async () => {
  server = await serve({'/': here, '/dist/': dist}, {made: {'/large.gguf': large, '/zeros.gguf': zeros({layers: 4, hidden: 2048, ffn: 8192, heads: 32, kvHeads: 8, vocabulary: 128256})}});
  url = server.url + 'large.gguf';
  browser = await launchWithProfile(scratch('large'));
  ({page, problems} = await open(browser, server.url + 'binding.html'));
});
after(async () => {
  await browser?.close();
  await server?.close();
});

async function check(options) {
  const {values, info} = await run(page, url, tiny.prompt, {precision: 'f32', ...options}, 0);
  assert.ok(distance(tiny, values) <= tiny.tol_f32);
  assert.equal(info.bytes, large.size);
  assert.deepEqual(problems, []);
}

/** Puts the file into storage as an earlier visit would have: its first `size` bytes, the zeros as a hole. */
const keep = (size, complete) => page.evaluate(async ({url, size, whole, complete, etag, parts}) => {
  const code = `import {keyOf, openData, writeMeta} from '${location.origin}/dist/lib/store.js';
    onmessage = async ({data: {url, size, whole, complete, etag, parts}}) => {
      const key = await keyOf(url), handle = await openData(key);
      handle.truncate(size);
      for (const {at, length} of parts) {
        const end = Math.min(size, at + length);
        if (at < end) handle.write(await (await fetch(url, {headers: {range: 'bytes=' + at + '-' + (end - 1)}})).arrayBuffer(), {at});
      }
      handle.flush();
      handle.close();
      await writeMeta(key, {url, size: whole, etag, complete});
      postMessage('kept');
    };`;
  const worker = new Worker(URL.createObjectURL(new Blob([code], {type: 'text/javascript'})), {type: 'module'});
  await new Promise((resolve, reject) => {
    worker.onmessage = resolve;
    worker.onerror = event => reject(new Error(event.message));
    worker.postMessage({url, size, whole, complete, etag, parts});
  });
  worker.terminate();
}, {url, size, whole: large.size, complete, etag: '"/large.gguf"', parts: large.parts.map(({at, bytes}) => ({at, length: bytes.length}))});

const room = () => page.evaluate(async () => (await (await import('/dist/lib/store.js')).freeBytes()));

test('by ranges', async () => {
  await check({store: false});
  assert.ok(server.requests.filter(r => r.range).every(r => /^bytes=\d+-\d+$/.test(r.range)));
});

test('from storage, without the server', async t => {
  if (await room() < large.size) { t.skip('the disk has no room for it'); return; }
  await keep(large.size, true);
  server.requests.length = 0;
  await check({store: true});
  assert.deepEqual(server.requests.filter(r => r.name === '/large.gguf'), []);
});

test('a download goes on beyond 4 GiB', async t => {
  if (await room() < large.size) { t.skip('the disk has no room for it'); return; }
  const have = tail.at + 1000;
  await keep(have, false);
  server.requests.length = 0;
  await check({store: true});
  assert.deepEqual(server.requests.filter(r => r.name === '/large.gguf').map(r => r.range), [`bytes=${have}-`]);
  assert.ok(have > 2 ** 32 && head.bytes.length < 1 << 20);
});

test('a file of 1 GB goes to the GPU through less than 64 MiB of the program\'s memory', async t => {
  const {wasmBytes, weights} = await page.evaluate(async () => {
    const {Gull} = await import('/dist/index.js');
    const model = await Gull.load('/zeros.gguf', {store: false, warm: false, context: 512});
    const {wasmBytes} = await model.measure(), {memory: {weights}} = await model.stats();
    await model.dispose();
    return {wasmBytes, weights};
  });
  t.diagnostic(`${(wasmBytes / 2 ** 20).toFixed(1)} MiB`);
  assert.ok(weights > 1e9, `${weights} bytes of weights`);
  assert.ok(wasmBytes < 64 << 20, `${wasmBytes} bytes`);
  assert.deepEqual(problems, []);
});
