// The engine in Chromium: logits of the tiny models against their outside references, and a real model's words against the
// native program's on the same limits.
import test, {before, after} from 'node:test';
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import {serve} from './server.mjs';
import {launch, open, here, dist, data, models, noSmolLm2, SMOLLM2} from './browser.mjs';

const fixtures = path.join(data, 'fixtures');
const cases = JSON.parse(fs.readFileSync(path.join(fixtures, 'index.json'))).cases;
let server, browser, page, problems;

before(async () => {
  server = await serve({'/': here, '/dist/': dist, '/fixtures/': fixtures, '/models/': models});
  browser = await launch();
  ({page, problems} = await open(browser, server.url + 'binding.html'));
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const floats = file => {
  const bytes = fs.readFileSync(path.join(fixtures, file));
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
};
const largest = (a, b) => a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0);

/** Loads a fixture, returns logits of the whole prompt and the greedy continuation. */
const runFixture = (url, prompt, options) => page.evaluate(async ({url, prompt, options}) => {
  const {Gull} = await import('/dist/index.js');
  const model = await Gull.load(url, {store: false, warm: false, ...options});
  const {values} = await model.session.logits(prompt, {all: true});
  await model.session.reset();
  const {ids} = await model.generate(prompt, {temperature: 0, maxTokens: 16, ignoreEog: true}).result;
  const info = model.info;
  await model.dispose();
  return {values: [...values], ids, info};
}, {url, prompt, options});

// A plain float model, one with windows and softer limits, and a quantised one; each in another way of running.
for (const [id, options] of [['llama', {precision: 'f32'}], ['gemma3', {precision: 'f32', baselineLimits: true}], ['q256-Q4_K_M', {precision: 'f32', jspi: false}]]) {
  test(`${id} equals its reference (${JSON.stringify(options)})`, async () => {
    const fixture = cases.find(c => c.id === id);
    const {values, ids, info} = await runFixture(`/fixtures/${fixture.model}`, fixture.prompt, options);
    assert.equal(info.jspi, options.jspi ?? true);
    const first = (fixture.first_position ?? 0) * fixture.shape[1];
    const reference = floats(fixture.logits), got = values.slice(first);
    assert.equal(got.length, reference.length);
    const difference = largest(got, reference);
    assert.ok(difference <= fixture.tol_f32, `logits differ by ${difference}, at most ${fixture.tol_f32} is allowed`);
    assert.deepEqual(ids, fixture.greedy);
    assert.deepEqual(problems, []);
  });
}

const program = process.env.GULL_PROGRAM;
const missing = noSmolLm2 ? noSmolLm2 : !program || !fs.existsSync(program) ? 'the native program is not built' : false;
// In f32: left to themselves the two round activations differently, and a near tie may fall either way.
test('SmolLM2 says what the native program says on the same limits', {skip: missing}, async t => {
  const question = 'Why is the sky blue?', tokens = 3;
  const native = JSON.parse(execFileSync(program, ['run', path.join(models, SMOLLM2), question, '--temp', '0', '-n', String(tokens), '--limits', 'baseline', '--precision', 'f32', '--format', 'json', '--quiet'],
    {env: {...process.env, XDG_RUNTIME_DIR: '/tmp'}, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit']}));
  const web = await page.evaluate(async ({url, question, tokens}) => {
    const {Gull} = await import('/dist/index.js');
    const model = await Gull.load(url, {store: false, baselineLimits: true, precision: 'f32', count: true});
    const before = await model.measure();
    const {text, ids, timings} = await model.generate([{role: 'user', content: question}], {temperature: 0, maxTokens: tokens}).result;
    const after = await model.measure(), stats = await model.stats();
    await model.dispose();
    return {text, ids, timings, before, after, stats};
  }, {url: `/models/${SMOLLM2}`, question, tokens});
  assert.equal(web.text, native.text);
  assert.ok(web.after.wasmBytes < (64 + 8) << 20, `wasm memory peaked at ${web.after.wasmBytes}`);
  const calls = m => Object.values(m.crossings).reduce((a, b) => a + b, 0);
  const perToken = (calls(web.after) - calls(web.before)) / web.ids.length;
  t.diagnostic(`${perToken.toFixed(1)} crossings and ${(1000 * web.timings.generateSeconds / web.timings.generatedTokens).toFixed(0)} ms a token; wasm memory ${(web.after.wasmBytes / 2 ** 20).toFixed(1)} MiB`);
  // A submission crosses into JavaScript a handful of times, however many dispatches it holds.
  assert.ok(perToken < 40, JSON.stringify(web.after.crossings));
  assert.deepEqual(problems, []);
});
