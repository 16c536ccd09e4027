// The package as it is published: what it holds, how it is imported, and how much of it a page has to fetch.
import test from 'node:test';
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import {gzipSync} from 'node:zlib';
import {dist, scratch} from './browser.mjs';

const LIMIT = 1_500_000, GZIP_LIMIT = 500_000;
const manifest = JSON.parse(fs.readFileSync(path.join(dist, 'package.json')));

// Before a model can be loaded the loader and the program are fetched, each file compressed by itself as servers do.
test('it is small', t => {
  const files = ['index.js', 'worker.js', 'gull.wasm', ...fs.readdirSync(path.join(dist, 'lib')).map(name => `lib/${name}`)];
  let raw = 0, compressed = 0;
  for (const file of files) {
    const bytes = fs.readFileSync(path.join(dist, file));
    raw += bytes.length;
    compressed += gzipSync(bytes, {level: 9}).length;
  }
  t.diagnostic(`${files.length} files, ${raw} bytes, ${compressed} compressed by gzip`);
  assert.ok(raw < LIMIT, `${raw} bytes, at most ${LIMIT} are allowed`);
  assert.ok(compressed < GZIP_LIMIT, `${compressed} bytes compressed, at most ${GZIP_LIMIT} are allowed`);
});

test('npm publishes all that it needs, and nothing else', () => {
  const [{files}] = JSON.parse(execFileSync('npm', ['pack', '--dry-run', '--json', '--offline'], {cwd: dist, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore']}));
  const packed = new Set(files.map(file => file.path));
  for (const name of ['package.json', 'README.md', 'LICENSE', 'NOTICES.md', 'index.js', 'index.d.ts', 'worker.js', 'gull.wasm', 'gull.asyncify.wasm', 'lib/webgpu_layout.js'])
    assert.ok(packed.has(name), `${name} is missing`);
  for (const name of JSON.parse(fs.readFileSync(path.join(dist, 'files.json')))) assert.ok(packed.has(name), `the page keeps ${name}, which is not packed`);
  assert.deepEqual([...packed].filter(name => /_check|node_modules|\.mjs$/.test(name)), []);
  assert.equal(manifest.license, 'Apache-2.0');
});

test('it is imported by its name', () => {
  const folder = scratch('package');
  fs.mkdirSync(path.join(folder, 'node_modules'));
  fs.symlinkSync(dist, path.join(folder, 'node_modules', manifest.name));
  fs.writeFileSync(path.join(folder, 'use.mjs'), `import {Gull, GullError, humanBytes} from '${manifest.name}';
    console.log(typeof Gull.load, new GullError('bad file', 'no').kind, humanBytes(1536), import.meta.resolve('${manifest.name}/gull.wasm').endsWith('gull.wasm'));`);
  assert.equal(execFileSync(process.execPath, [path.join(folder, 'use.mjs')], {encoding: 'utf8'}), 'function bad file 1.50 KiB true\n');
});

/** What index.d.ts declares of an interface: the names of its functions. */
function declared(name) {
  const text = fs.readFileSync(path.join(dist, 'index.d.ts'), 'utf8');
  const body = new RegExp(`(?:interface|const) ${name}[^{]*\\{([\\s\\S]*?)\\n\\}`).exec(text)[1];
  return [...body.matchAll(/^  (\w+)\(/gm)].map(match => match[1]);
}

test('its types name what is there', async () => {
  const {Gull} = await import(path.join(dist, 'index.js'));
  assert.deepEqual(Object.keys(Gull).sort(), declared('Gull').sort());
});
