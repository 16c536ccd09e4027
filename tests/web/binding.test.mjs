// The browser's webgpu.h binding alone: a C++ program without any of gull, in both ways of suspending.
import test, {before, after} from 'node:test';
import assert from 'node:assert/strict';
import {serve} from './server.mjs';
import {launch, open, here, dist} from './browser.mjs';

let server, browser;
before(async () => {
  server = await serve({'/': here, '/dist/': dist});
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});


for (const mode of [{file: 'binding_check.wasm', jspi: true}, {file: 'binding_check.asyncify.wasm', jspi: false}]) {
  test(`webgpu.h in Chromium, ${mode.jspi ? 'JSPI' : 'Asyncify'}`, async () => {
    const {page, problems} = await open(browser, server.url + 'binding.html');
    const {results, printed, live} = await page.evaluate(async args => {
      const {start} = await import('/dist/lib/runtime.js');
      const {createWebGPU} = await import('/dist/lib/webgpu.js');
      const printed = {};
      let gpu;
      const run = await start({
        bytes: await fetch(`/dist/${args.file}`), jspi: args.jspi,
        imports: ({memory}) => (gpu = createWebGPU(memory, navigator.gpu)),
        print: line => { const [key, ...value] = line.split(': '); printed[key] = value.join(': '); },
      });
      const results = {};
      for (const name of ['open_device', 'saxpy', 'immediates', 'errors', 'wait_any', 'lose_device']) results[name] = await run.call(name, 100003);
      return {results, printed, live: gpu.live()};
    }, mode);
    assert.deepEqual(results, {open_device: 0, saxpy: 0, immediates: 0, errors: 0, wait_any: 0, lose_device: 0});
    assert.equal(printed.wrong, '0');
    assert.match(printed.shader, /undeclared_name/);
    assert.match(printed.usage, /usage/i);
    assert.match(printed.range, /map/i);
    assert.match(printed.uncaptured, /multiple of 4|aligned|write/i);
    assert.ok(printed.lost.length > 0);
    assert.equal(live, 0, 'every handle was released');
    assert.deepEqual(problems, []);
    await page.close();
  });
}
