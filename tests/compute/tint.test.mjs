// Every shader that operations_test makes on WebGPU's default limits also compiles with Tint, in Debian's Chromium.
// usage: node tint.test.mjs OPERATIONS_TEST     (skipped, 77, where there is no Chromium or no playwright-core)
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

let launch;
try {
  ({launch} = await import('../web/browser.mjs'));
} catch (error) {
  console.log(`skipped: ${error.message}`);
  process.exit(77);
}
if (!fs.existsSync(process.env.GULL_CHROMIUM ?? '/usr/bin/chromium')) process.exit(77);

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'gull-shaders-'));
process.on('exit', () => fs.rmSync(folder, {recursive: true, force: true}));
execFileSync(process.argv[2], ['--gtest_filter=*baseline*', '--gtest_brief=1'], {env: {...process.env, GULL_DUMP_SHADERS: folder}, stdio: 'inherit'});
const shaders = fs.readdirSync(folder).map(name => [name, fs.readFileSync(path.join(folder, name), 'utf8')]);

const browser = await launch();
const page = await (await browser.newContext()).newPage();
await page.route('**', route => route.fulfill({contentType: 'text/html', body: '<!doctype html>'}));   // a secure origin, and nothing else
await page.goto('https://localhost/');
const wrong = await page.evaluate(async shaders => {
  const device = await (await navigator.gpu.requestAdapter()).requestDevice();
  const wrong = [];
  for (const [name, code] of shaders) {
    device.pushErrorScope('validation');
    const module = device.createShaderModule({code});
    const pipeline = device.createComputePipelineAsync({layout: 'auto', compute: {module}}).then(() => null, error => error.message);
    const messages = (await module.getCompilationInfo()).messages.filter(m => m.type === 'error').map(m => `${m.lineNum}:${m.linePos} ${m.message}`);
    const failed = await pipeline;
    await device.popErrorScope();
    if (messages.length || failed) wrong.push([name, messages.join('\n') || failed]);
  }
  return wrong;
}, shaders);
await browser.close();
for (const [name, message] of wrong) console.error(`${name}: ${message}`);
console.log(`${shaders.length - wrong.length} of ${shaders.length} shaders compile with Tint`);
process.exit(wrong.length || !shaders.length ? 1 : 0);
