// The tiny models, their references from outside (tests/data/fixtures), and how a page runs them.
import fs from 'node:fs';
import path from 'node:path';
import {data} from './browser.mjs';

export const fixtures = path.join(data, 'fixtures');
const cases = JSON.parse(fs.readFileSync(path.join(fixtures, 'index.json'))).cases;
export const fixture = id => cases.find(c => c.id === id);

export const floats = file => {
  const bytes = fs.readFileSync(file);
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
};
export const largest = (a, b) => a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0);

/** Loads a model; returns logits of the whole prompt, a greedy continuation, and what the model says of itself. */
export const run = (page, url, prompt, options, tokens = 16) => page.evaluate(async ({url, prompt, options, tokens}) => {
  const {Gull} = await import('/dist/index.js');
  const model = await Gull.load(url, {store: false, warm: false, ...options});
  const {values} = await model.session.logits(prompt, {all: true});
  await model.session.reset();
  const {ids} = tokens ? await model.generate(prompt, {temperature: 0, maxTokens: tokens, ignoreEog: true}).result : {ids: []};
  const info = model.info, stats = await model.stats();
  await model.dispose();
  return {values: [...values], ids, info, stats};
}, {url, prompt, options, tokens});

/** How far logits are from the fixture's reference. */
export function distance(fixture, values) {
  const reference = floats(path.join(fixtures, fixture.logits)), got = values.slice((fixture.first_position ?? 0) * fixture.shape[1]);
  return got.length === reference.length ? largest(got, reference) : Infinity;
}
