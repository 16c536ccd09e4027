// The engine in Chromium: logits of the tiny models against their outside references, and a real model's words against the
// native program's on the same limits.
import test, {before, after} from 'node:test';
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import {serve} from './server.mjs';
import {launch, open, here, dist, models, noSmolLm2, scratch, SMOLLM2} from './browser.mjs';
import {distance, fixture, fixtures, floats, run} from './fixtures.mjs';

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

// A plain float model, one with windows and softer limits, and quantised ones with float and with 8-bit activations; each in
// another way of running.
for (const [id, options] of [['llama', {precision: 'f32'}], ['gemma3', {precision: 'f32', baselineLimits: true}], ['qwen2', {precision: 'f32', jspi: false}],
  ['q256-Q4_K_M', {asHardware: true}], ['q128-Q4_0', {asHardware: true, baselineLimits: true}], ['lfm2', {memoryTight: true}]]) {
  test(`${id} equals its reference (${JSON.stringify(options)})`, async () => {
    const known = fixture(id), {values, ids, info} = await run(page, `/fixtures/${known.model}`, known.prompt, options);
    assert.equal(info.jspi, options.jspi ?? true);
    const far = distance(known, values), allowed = options.precision === 'f32' ? known.tol_f32 : known.tol_f16;
    assert.ok(far <= allowed, `logits differ by ${far}, at most ${allowed} is allowed`);
    if (far < known.greedy_min_margin / 2) assert.deepEqual(ids, known.greedy);
    assert.deepEqual(problems, []);
  });
}

test('memoryTight gives the same bits, a submission for each layer', async () => {
  const known = fixture('llama'), url = `/fixtures/${known.model}`;
  const [plain, tight] = [await run(page, url, known.prompt, {}), await run(page, url, known.prompt, {memoryTight: true})];
  assert.deepEqual(tight.values, plain.values);
  assert.deepEqual(tight.ids, plain.ids);
  assert.ok(tight.stats.submissions >= plain.stats.submissions + 2 * tight.ids.length, `${plain.stats.submissions} and ${tight.stats.submissions} submissions`);
});

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

/** Mean Kullback-Leibler divergence of the rows of `q` from those of `p`. */
function divergence(p, q, columns) {
  const logSum = (x, at) => {
    let best = -Infinity, sum = 0;
    for (let i = at; i < at + columns; i++) best = Math.max(best, x[i]);
    for (let i = at; i < at + columns; i++) sum += Math.exp(x[i] - best);
    return best + Math.log(sum);
  };
  let total = 0;
  for (let at = 0; at < p.length; at += columns) {
    const [lp, lq] = [logSum(p, at), logSum(q, at)];
    for (let i = at; i < at + columns; i++) total += Math.exp(p[i] - lp) * (p[i] - lp - (q[i] - lq));
  }
  return total / (p.length / columns);
}

// The bound is that of the native program's fast mode (tests/engine/accuracy_test.cpp). Its logits themselves are others: where
// two roundings to 8 bits differ once, thirty layers make it noise.
test('SmolLM2 with 8-bit products is as near to float32 as the native program\'s', {skip: missing}, async t => {
  const [{tokens}] = JSON.parse(fs.readFileSync(path.join(fixtures, 'real/smollm2-135m-instruct-q4_1.json'))).prompts;
  const exact = path.join(scratch('engine'), 'logits.f32');
  execFileSync(program, ['logits', path.join(models, SMOLLM2), '--ids', tokens.join(','), '--all', '--out', exact, '--precision', 'f32'],
    {env: {...process.env, XDG_RUNTIME_DIR: '/tmp'}, stdio: 'ignore'});
  const {values, info} = await run(page, `/models/${SMOLLM2}`, tokens, {asHardware: true, context: 256}, 0);
  const far = divergence(floats(exact), values, info.vocabulary);
  t.diagnostic(`mean KL ${far.toExponential(2)} over ${tokens.length} tokens`);
  assert.ok(far > 1e-6 && far < 5e-3, `mean KL ${far}`);
  assert.deepEqual(problems, []);
});
