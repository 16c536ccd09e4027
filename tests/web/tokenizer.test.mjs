// The tokenizers in Chromium, where the browser's own regular expressions cut words and its own tables tell letters from digits:
// thousands of generated strings a tokenizer, against hashes of the ids that llama.cpp and the tokenizers library give, as in
// tests/text (tests/data/tokenizer/README.md says how they were made), and the texts of the fixtures.
import test, {before, after} from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import {serve} from './server.mjs';
import {launch, open, here, dist, data} from './browser.mjs';
import {fixtures} from './fixtures.mjs';
import {vocabulary} from './synthetic.mjs';

const folder = path.join(data, 'tokenizer'), json = file => JSON.parse(fs.readFileSync(file));
const cases = json(path.join(folder, 'cases.json')), tables = json(path.join(folder, 'strings.json'));
let server, browser, page, problems;

/** SmolLM2's vocabulary from its compact form, as tests/text/tokenizer_strings.h reads it. */
function smollm2() {
  const bytes = fs.readFileSync(path.join(folder, 'smollm2.vocab')), end = bytes.indexOf('\n\n');
  const tokens = bytes.toString('utf8', 0, end).split('\n'), merges = [];
  for (let at = end + 2; at + 4 <= bytes.length; at += 4) {
    const left = tokens[bytes.readUInt16LE(at)], right = tokens[bytes.readUInt16LE(at + 2)];
    merges.push(`${left} ${right}`);
    tokens.push(left + right);
  }
  return {tokens, merges, special: 17};
}

before(async () => {
  const {tokens, merges, special} = smollm2();
  const made = Object.fromEntries(cases.filter(c => c.vocabulary === 'smollm2').map(({pre}) => [`/smollm2/${pre}`, vocabulary({pre, tokens, merges, special})]));
  server = await serve({'/': here, '/dist/': dist, '/vocabularies/': folder, '/fixtures/': fixtures}, {made});
  browser = await launch();
  ({page, problems} = await open(browser, server.url + 'binding.html'));
  await page.evaluate(async () => {
    const [{start}, {createPatterns}, {createUnicode}] = await Promise.all(['runtime', 'patterns', 'unicode'].map(name => import(`/dist/lib/${name}.js`)));
    const {memory, exports} = await start({
      bytes: await fetch('/dist/tokenizer_check.wasm'),
      imports: ({memory}) => ({env: {...createPatterns(memory), gull_unicode: createUnicode(memory)}, suspending: []}),
    });
    window.openTokenizer = async url => {
      const bytes = new Uint8Array(await (await fetch(url)).arrayBuffer()), p = memory.alloc(bytes.length);
      memory.bytes.set(bytes, p);
      const opened = exports.open_tokenizer(p, bytes.length);
      memory.free(p);
      if (!opened) throw new Error(`${url} has no usable tokenizer`);
    };
    window.encode = (bytes, addSpecial, parseSpecial) => {
      const p = memory.alloc(bytes.length);
      memory.bytes.set(bytes, p);
      const count = exports.encode(p, bytes.length, addSpecial, parseSpecial);
      memory.free(p);
      return count < 0 ? null : [...new Int32Array(memory.buffer, exports.encoded(), count)];
    };
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const MASK = (1n << 64n) - 1n;

/** The strings of tests/text/tokenizer_strings.h: splitmix64 chooses. */
function generated(seed, index) {
  let state = BigInt(seed) * 1000003n + BigInt(index);
  const below = n => {
    let z = state = (state + 0x9E3779B97F4A7C15n) & MASK;
    z = ((z ^ (z >> 30n)) * 0xBF58476D1CE4E5B9n) & MASK;
    z = ((z ^ (z >> 27n)) * 0x94D049BB133111EBn) & MASK;
    return Number((z ^ (z >> 31n)) % BigInt(n));
  };
  const pick = table => tables[table][below(tables[table].length)];
  const times = (n, make) => Array.from({length: n}, make).join('');
  const point = ([first, last]) => String.fromCodePoint(first + below(last - first + 1));
  const characters = (first, kinds, longest) => times(1 + below(longest), () => String.fromCharCode(first.charCodeAt(0) + below(kinds)));
  const upper = text => text.replace(/[a-z]/g, c => c.toUpperCase());
  function word() {
    const text = pick('words'), style = below(8);
    const styled = style === 0 ? upper(text) : style === 1 ? upper(text[0]) + text.slice(1) : text;
    return (below(4) ? ' ' : '') + styled;
  }
  function script() {
    const range = pick('ranges');
    return times(1 + below(4), () => { below(1); return point(range); });
  }
  function part() {
    const kind = below(20);
    if (kind < 6) return word();
    if (kind < 7) return characters('a', 26, 8);
    if (kind < 8) return characters('0', 10, 7);
    if (kind < 10) return pick('punctuation');
    if (kind < 13) return pick('spaces');
    if (kind < 14) return pick('contractions');
    if (kind < 16) return script();
    if (kind < 17) { const base = point(pick('ranges')); return base + times(1 + below(2), () => point(pick('marks'))); }
    return kind < 19 ? pick('snippets') : pick('special');
  }
  return times(1 + below(16), part);
}

/** FNV-1a, 64 bits, over each list's length and ids as 32-bit numbers. */
function hashOf(lists) {
  let hash = 0xCBF29CE484222325n;
  const add = number => { for (let i = 0; i < 4; i++, number >>>= 8) hash = ((hash ^ BigInt(number & 0xff)) * 0x100000001B3n) & MASK; };
  for (const ids of lists) for (const number of [ids.length, ...ids]) add(number);
  return hash.toString(16).padStart(16, '0');
}

const STRINGS = 500;   // of each case, in hundreds: the native tests run all of them
for (const c of cases)
  test(`generated strings, ${c.vocabulary} ${c.pre ?? ''}`, async () => {
    const texts = Array.from({length: Math.min(STRINGS, c.strings)}, (_, i) => generated(c.seed, i)).map(text => (c.without ? text.replaceAll(c.without, '') : text));
    const lists = await page.evaluate(async ({url, texts}) => {
      await window.openTokenizer(url);
      const encoder = new TextEncoder();
      return texts.map((text, i) => window.encode(encoder.encode(text), false, i % 2 === 1));
    }, {url: c.vocabulary === 'smollm2' ? `/smollm2/${c.pre}` : `/vocabularies/${c.vocabulary}.gguf`, texts});
    for (let at = 0; at < texts.length; at += 100) assert.equal(hashOf(lists.slice(at, at + 100)), c.hashes[at / 100], `strings ${at}…`);
    assert.deepEqual(problems, []);
  });

for (const name of ['tiny-llama', 'tiny-mistral', 'tiny-gemma3', 'tiny-gemma4-e2b', 'tiny-bert-bge', 'smollm2'])
  test(`fixture ${name}`, async () => {
    const file = json(path.join(fixtures, 'tokenizer', `${name}.json`));
    const got = await page.evaluate(async ({url, texts}) => {
      await window.openTokenizer(url);
      const bytes = hex => Uint8Array.from(hex.match(/../g) ?? [], pair => parseInt(pair, 16));
      return texts.map(hex => [0, 1].flatMap(special => [0, 1].map(parse => window.encode(bytes(hex), special, parse))));
    }, {url: name === 'smollm2' ? '/smollm2/smollm' : `/fixtures/${file.model_file}`, texts: file.cases.map(c => c.text_hex)});
    file.cases.forEach((c, i) => assert.deepEqual(got[i], [0, 1].flatMap(special => [0, 1].map(parse => c[`ids_special${special}_parse${parse}`])), c.text_hex));
    assert.ok(file.cases.length >= 9);
  });
