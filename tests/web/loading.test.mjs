// How weights arrive: ranges, interruption and resuming, the browser's storage, hashes, quotas, refusals, several tabs.
// The model's server is not the page's, so all of it runs across origins, as it does with a model hub.
import test, {before, beforeEach, after} from 'node:test';
import assert from 'node:assert/strict';
import {createHash} from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import {serve} from './server.mjs';
import {launch, open, here, dist, data, scratch} from './browser.mjs';

const folder = scratch('loading'), original = path.join(data, 'fixtures/models/llama.f32.gguf');
const SIZE = fs.statSync(original).size, sha256 = createHash('sha256').update(fs.readFileSync(original)).digest('hex');
const CHUNK = 1 << 18;   // what the server sends at a time: an interrupted download has one of them
let pages, server, browser, context, page, problems, url;

before(async () => {
  fs.copyFileSync(original, path.join(folder, 'model.gguf'));
  fs.writeFileSync(path.join(folder, 'page.gguf'), '<!doctype html><title>Sign in</title>'.padEnd(5000));
  pages = await serve({'/': here, '/dist/': dist});
  server = await serve({'/': folder});
  url = server.url + 'model.gguf';
  browser = await launch();
});
beforeEach(async () => {
  await context?.close();
  context = await browser.newContext();   // with a storage of its own
  Object.assign(server.faults, {noRange: false, dieAfter: Infinity, bytesPerSecond: Infinity});
  server.requests.length = 0;
  ({page, problems} = await open(context, pages.url + 'binding.html'));
});
after(async () => {
  await browser?.close();
  await pages?.close();
  await server?.close();
});

/** Loads in the page and disposes; returns what happened. Nothing is computed. */
const load = (options = {}, on = page, from = url) => on.evaluate(async ({url, options}) => {
  const {Gull} = await import('/dist/index.js');
  const notices = [], progress = [];
  const abort = new AbortController();
  const outcome = {notices, progress};
  try {
    const model = await Gull.load(url, {warm: false, ...options, signal: abort.signal, onNotice: text => notices.push(text), onProgress: p => {
      progress.push(p);
      if (options.abortAfter && p.stage === 'download' && p.done >= options.abortAfter) abort.abort();
    }});
    outcome.name = model.info.name;
    await model.dispose();
  } catch (error) { Object.assign(outcome, {kind: error.kind, message: error.message}); }
  outcome.stored = await Gull.stored();
  return outcome;
}, {url: from, options});

// A network failure that the package handles is still logged by the browser itself.
const noProblems = () => assert.deepEqual(problems.filter(text => !/Failed to load resource|net::ERR/.test(text)), []);

test('a download that breaks says so, goes on where it was, and then works without the server', async () => {
  server.faults.dieAfter = CHUNK + 1000;
  const broken = await load({sha256});
  assert.equal(broken.kind, 'input/output error');
  assert.match(broken.message, /model\.gguf: the connection (broke|ended) after 256\.0 KiB/);
  assert.deepEqual(broken.stored, [{url, size: SIZE, bytes: CHUNK, complete: false}]);

  server.faults.dieAfter = Infinity;
  server.requests.length = 0;
  const resumed = await load({sha256});
  assert.equal(resumed.name, 'tiny-llama', resumed.message);
  assert.deepEqual(server.requests.map(r => r.range), [`bytes=${CHUNK}-`], 'only the rest was fetched');
  assert.equal(resumed.stored[0].complete, true);
  assert.deepEqual(resumed.progress.filter(p => p.stage === 'download').at(-1).done, SIZE);

  await server.stop();
  try { assert.equal((await load({sha256})).name, 'tiny-llama'); } finally { await server.start(); }
  noProblems();
});

test('a wrong hash is refused and leaves nothing behind', async () => {
  const wrong = await load({sha256: '0'.repeat(64)});
  assert.equal(wrong.kind, 'bad file');
  assert.ok(wrong.message.includes(sha256) && wrong.message.includes('thrown away'), wrong.message);
  assert.deepEqual(wrong.stored, []);
  assert.equal((await load({sha256})).name, 'tiny-llama');
  noProblems();
});

test('a server without ranges serves the whole file, and even a resumed one', async () => {
  Object.assign(server.faults, {noRange: true, dieAfter: CHUNK + 1000});
  assert.equal((await load()).kind, 'input/output error');
  server.faults.dieAfter = Infinity;
  assert.equal((await load({sha256})).name, 'tiny-llama');
  noProblems();
});

test('without ranges and without storage there is no way', async () => {
  server.faults.noRange = true;
  const refused = await load({store: false});
  assert.equal(refused.kind, 'unsupported');
  assert.match(refused.message, /no byte ranges/);
  noProblems();
});

test('without storage the bytes come by ranges', async () => {
  const loaded = await load({store: false});
  assert.equal(loaded.name, 'tiny-llama');
  assert.deepEqual(loaded.stored, []);
  assert.ok(server.requests.every(r => /^bytes=\d+-\d+$/.test(r.range)));
  noProblems();
});

test('a missing file, a web page, and no server at all', async () => {
  const absent = await load({}, page, server.url + 'absent.gguf');
  assert.deepEqual([absent.kind, /answered 404: there is no such file/.test(absent.message)], ['not found', true]);
  const html = await load({}, page, server.url + 'page.gguf');
  assert.deepEqual([html.kind, /no GGUF file but a web page/.test(html.message)], ['bad file', true]);
  assert.deepEqual(html.stored, []);
  await server.stop();
  try {
    const nobody = await load();
    assert.equal(nobody.kind, 'input/output error');
    assert.match(nobody.message, /cannot be reached/);
  } finally { await server.start(); }
  noProblems();
});

test('a model larger than the quota is loaded without being kept', async () => {
  const session = await context.newCDPSession(page);
  await session.send('Storage.overrideQuotaForOrigin', {origin: new URL(pages.url).origin, quotaSize: 200_000});
  const loaded = await load();
  assert.equal(loaded.name, 'tiny-llama', loaded.message);
  assert.match(loaded.notices.join(), /(this page may store|storage is full).* loaded without being kept/);
  assert.deepEqual(loaded.stored, []);
  noProblems();
});

test('a cancelled download ends at once and keeps what it has', async () => {
  server.faults.bytesPerSecond = CHUNK / 4;   // the second chunk is far away
  const cancelled = await load({abortAfter: 1000});
  assert.equal(cancelled.kind, 'cancelled', cancelled.message);
  assert.equal(cancelled.stored[0].complete, false);
  server.faults.bytesPerSecond = Infinity;
  assert.equal((await load({sha256})).name, 'tiny-llama');
  noProblems();
});

test('a file that changed on the server is fetched from its beginning', async () => {
  server.faults.dieAfter = CHUNK + 1000;
  assert.equal((await load()).stored[0].bytes, CHUNK);
  server.faults.dieAfter = Infinity;
  fs.utimesSync(path.join(folder, 'model.gguf'), new Date(), new Date(Date.now() + 5000));   // another ETag
  assert.equal((await load({sha256})).name, 'tiny-llama');
  noProblems();
});

test('two tabs share one download, and both load', async () => {
  server.faults.bytesPerSecond = CHUNK * 2;
  const other = await open(context, pages.url + 'binding.html');
  const both = await Promise.all([load({sha256}), load({sha256}, other.page)]);
  assert.deepEqual(both.map(r => r.name), ['tiny-llama', 'tiny-llama'], JSON.stringify(both));
  assert.equal(server.requests.length, 1, 'one of them waited for the other');
  assert.ok(both.some(r => /another tab is downloading/.test(r.notices.join())));
  noProblems();
});

test('loading and disposing ten times leaves nothing behind', async () => {
  const session = await browser.newBrowserCDPSession(), pageSession = await context.newCDPSession(page);
  const resident = async () => {   // of all processes of the browser, the GPU's among them
    await pageSession.send('HeapProfiler.collectGarbage');
    const {processInfo} = await session.send('SystemInfo.getProcessInfo');
    return processInfo.reduce((sum, {id}) => {
      try { return sum + Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${id}/status`, 'utf8'))?.[1] ?? 0) / 1024; } catch { return sum; }
    }, 0);
  };
  let early;
  for (let i = 1; i <= 10; i++) {
    assert.equal((await load()).name, 'tiny-llama');
    for (let wait = 0; wait < 100 && page.workers().length; wait++) await new Promise(resolve => setTimeout(resolve, 100));
    assert.equal(page.workers().length, 0, 'the worker ended');
    if (i === 3) early = await resident();
  }
  let growth = Infinity;   // ended processes and workers give their memory back when they come to it
  for (let wait = 0; wait < 40 && growth >= 48; wait++) {
    await new Promise(resolve => setTimeout(resolve, 500));
    growth = await resident() - early;
  }
  assert.ok(growth < 48, `seven more loads took ${growth.toFixed(1)} MiB`);
  noProblems();
});

test('a file of the user\'s, and one that is no model', async () => {
  const outcomes = await page.evaluate(async url => {
    const {Gull} = await import('/dist/index.js');
    const bytes = await (await fetch(url)).arrayBuffer(), out = [];
    for (const source of [new File([bytes], 'mine.gguf'), bytes, new File([bytes.slice(0, 100_000)], 'cut.gguf'), new File(['no model'], 'text.gguf'), 42]) {
      try {
        const model = await Gull.load(source, {warm: false});
        out.push(model.info.name);
        await model.dispose();
      } catch (error) { out.push(`${error.kind}: ${error.message}`); }
    }
    return out;
  }, url);
  assert.deepEqual(outcomes.slice(0, 2), ['tiny-llama', 'tiny-llama']);
  assert.match(outcomes[2], /^bad file: .*cut\.gguf/);
  assert.match(outcomes[3], /^bad file: .*text\.gguf/);
  assert.match(outcomes[4], /^invalid argument/);
  noProblems();
});
