// The demo page, driven as a person would. With GULL_SCREENSHOTS=FOLDER it leaves pictures there.
import test, {before, after} from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import {serve} from './server.mjs';
import {launch, open, dist, data, models, noSmolLm2, scratch, SMOLLM2} from './browser.mjs';

const fixtures = path.join(data, 'fixtures/models');
const folder = scratch('page');
let server, browser, context, page, problems;

before(async () => {
  const offers = [{name: 'Tiny Llama', url: 'tiny/llama.f32.gguf', size: fs.statSync(path.join(fixtures, 'llama.f32.gguf')).size},
    {name: 'Tiny Qwen', url: 'tiny/qwen2.f16.gguf'}];
  if (!noSmolLm2) offers.push({name: 'SmolLM2 135M', url: `real/${SMOLLM2}`});
  fs.writeFileSync(path.join(folder, 'models.json'), JSON.stringify(offers));
  server = await serve({'/': dist, '/models.json': path.join(folder, 'models.json'), '/tiny/': fixtures, '/real/': models});
  browser = await launch();
  context = await browser.newContext({viewport: {width: 1100, height: 800}});
  ({page, problems} = await open(context, server.url));
  await page.waitForSelector('body[data-ready]');
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const picture = async (name, of = page) => {
  if (process.env.GULL_SCREENSHOTS) await of.screenshot({path: path.join(process.env.GULL_SCREENSHOTS, `${name}.png`)});
};
const chatReady = (of = page) => of.waitForSelector('#chat:not([hidden])', {timeout: 300_000});
const idle = (of = page) => of.waitForSelector('#send:not([hidden])', {timeout: 300_000});
const set = async values => {
  await page.click('#settings-button');
  for (const [name, value] of Object.entries(values)) {
    await page.fill(`#settings [name=${name}]`, String(value));
    await page.locator(`#settings [name=${name}]`).dispatchEvent('change');
  }
  await picture('settings');
  await page.click('#settings button[value=close]');
};

test('a model is chosen, loaded and talked to, by keyboard alone', async () => {
  await picture('start');
  assert.match(await page.textContent('#support'), /GPU: .*Room for models/);
  await set({maxTokens: 24, temperature: 0});
  await page.locator('#model-list .load').first().focus();
  await page.keyboard.press('Enter');
  await page.waitForSelector('#loading:not([hidden])');
  await chatReady();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt', 'the message box has the focus');
  assert.match(await page.textContent('#model-name'), /tiny-llama on/);
  await page.keyboard.type('Hello, **tiny** one');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('of two lines');
  await page.keyboard.press('Enter');
  await idle();
  assert.equal(await page.locator('.message.user').textContent(), 'Hello, **tiny** one\nof two lines');
  await page.waitForFunction(() => /tokens\/s/.test(document.getElementById('speed').textContent));
  assert.match(await page.textContent('#speed'), /\d tokens\/s.*on the GPU/);
  assert.ok((await page.locator('.message.assistant').textContent()).length > 0);
  await picture('chat');
  assert.deepEqual(problems, []);
});

test('an answer is stopped, made again, and the conversation begun anew', async () => {
  await set({maxTokens: 400});
  await page.fill('#prompt', 'Once upon a time');
  await page.click('#send');
  await page.waitForFunction(() => document.querySelectorAll('.message.assistant')[1]?.textContent.length > 3);
  await page.keyboard.press('Escape');
  await idle();
  await page.waitForFunction(() => /stopped/.test(document.getElementById('speed').textContent));
  await set({maxTokens: 8});
  await page.click('#regenerate');
  await page.waitForSelector('#stop:not([hidden])');
  await idle();
  assert.equal(await page.locator('.message.assistant').count(), 2, 'the answer was replaced');
  await page.click('#clear');
  assert.equal(await page.locator('.message').count(), 0);
  assert.deepEqual(problems, []);
});

test('the GPU is lost in the middle of an answer: one clear message, and a way back', async () => {
  await set({maxTokens: 400});
  await page.fill('#prompt', 'Once more');
  await page.click('#send');
  await page.waitForFunction(() => document.querySelector('.message.assistant')?.textContent.length > 3);
  await page.workers()[0].evaluate(() => self.onmessage({data: {op: 'loseDevice'}}));
  await page.waitForSelector('#banner:not([hidden])');
  assert.match(await page.textContent('#banner-text'), /^the GPU device was lost \(.*\): load the model again$/);
  await picture('lost');
  await page.fill('#prompt', 'Is anybody there?');
  await page.keyboard.press('Enter');
  assert.equal(await page.locator('.message.user').count(), 1, 'nothing is sent to a GPU that is gone');
  await set({maxTokens: 8});
  await page.click('#banner-button');
  await chatReady();
  assert.ok(await page.isHidden('#banner'));
  await page.click('#send');
  await idle();
  assert.equal(await page.locator('.message.user').count(), 2);
  assert.equal(await page.locator('.message.assistant').count(), 2);
  assert.deepEqual(problems, []);
});

test('light and dark, as the device has it or as chosen', async () => {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.emulateMedia({colorScheme: 'dark'});
  const dark = await paper();
  assert.notEqual(dark, light);
  await page.click('#settings-button');
  await page.selectOption('#settings [name=theme]', 'light');
  assert.equal(await paper(), light);
  await page.emulateMedia({colorScheme: 'light'});
  await page.selectOption('#settings [name=theme]', 'dark');
  assert.equal(await paper(), dark);
  await picture('settings-dark');
  await page.selectOption('#settings [name=theme]', '');
  await page.keyboard.press('Escape');
  assert.ok(await page.isHidden('#settings'));
  assert.deepEqual(problems, []);
});

test('a second model, then offline: the page and the model come from this browser', async () => {
  await page.click('#models-button');
  await page.waitForSelector('#start:not([hidden])');
  await page.waitForFunction(() => /in this browser/.test(document.querySelector('#model-list li').textContent));
  await page.locator('#model-list .load').nth(1).click();
  await chatReady();
  assert.match(await page.textContent('#model-name'), /qwen/i);
  await page.waitForFunction(() => navigator.serviceWorker.controller);
  await server.stop();
  try {
    await page.reload();
    await page.waitForSelector('body[data-ready]');
    await page.locator('#model-list .load').first().click();
    await chatReady();
    await page.fill('#prompt', 'Offline');
    await page.click('#send');
    await idle();
    assert.ok((await page.locator('.message.assistant').textContent()).length > 0);
  } finally { await server.start(); }
  await page.click('#models-button');
  await page.waitForSelector('#start:not([hidden])');
  await page.locator('[aria-label="Remove Tiny Llama from this browser"]').click();
  await page.waitForFunction(() => !document.querySelector('[aria-label="Remove Tiny Llama from this browser"]'));
  assert.deepEqual(problems.filter(text => !/Failed to load resource|net::ERR/.test(text)), []);
  problems.length = 0;
});

test('a file that is no model gives a message and stays at the start', async () => {
  fs.writeFileSync(path.join(folder, 'notes.gguf'), 'these are notes');
  await page.setInputFiles('#file', path.join(folder, 'notes.gguf'));
  await page.waitForSelector('#banner:not([hidden])');
  assert.match(await page.textContent('#banner-text'), /notes\.gguf/);
  await picture('refused');
  assert.deepEqual(problems, []);
});

test('SmolLM2 on a phone, in the dark', {skip: noSmolLm2}, async () => {
  const phone = await browser.newContext({viewport: {width: 390, height: 780}, deviceScaleFactor: 2, hasTouch: true, isMobile: true, colorScheme: 'dark'});
  const small = await open(phone, server.url);
  await small.page.waitForSelector('body[data-ready]');
  await picture('phone-start', small.page);
  await small.page.evaluate(() => localStorage.setItem('gull-settings', JSON.stringify({maxTokens: 8, temperature: 0})));
  await small.page.reload();
  await small.page.waitForSelector('body[data-ready]');
  await small.page.locator('#model-list .load').last().tap();
  await small.page.waitForFunction(() => /of \d/.test(document.getElementById('progress-text').textContent));
  await picture('phone-loading', small.page);
  await chatReady(small.page);
  await small.page.fill('#prompt', 'What is the capital of France?');
  await small.page.tap('#send');
  await idle(small.page);
  assert.match(await small.page.locator('.message.assistant').textContent(), /Paris/);
  await small.page.waitForFunction(() => /tokens\/s/.test(document.getElementById('speed').textContent));
  const overflow = await small.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.equal(overflow, 0, 'nothing sticks out sideways');
  await picture('phone-chat', small.page);
  assert.deepEqual(small.problems, []);
});

test('markdown becomes elements, never markup', async () => {
  const html = await page.evaluate(async () => {
    const {renderMarkdown} = await import('./demo/markdown.js');
    const text = '# Title\n\nSome **bold**, *soft* and `a < b` words.\nA [link](https://example.org) and [no](javascript:alert(1)).\n\n- one\n- two\n  - deep\n\n1. first\n2. second\n\n```js\nlet x = "<b>";\n```\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<img src=x onerror=alert(1)>\n';
    const node = document.createElement('div');
    node.append(...renderMarkdown(text));
    return node.innerHTML;
  });
  assert.equal(html, '<h3>Title</h3><p>Some <strong>bold</strong>, <em>soft</em> and <code>a &lt; b</code> words.<br>A <a href="https://example.org" rel="noopener noreferrer" target="_blank">link</a> and no (javascript:alert(1)).</p>'
    + '<ul><li>one</li><li><p>two</p><ul><li>deep</li></ul></li></ul><ol><li>first</li><li>second</li></ol><pre><code>let x = "&lt;b&gt;";</code></pre><blockquote><p>quoted</p></blockquote>'
    + '<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table><p>&lt;img src=x onerror=alert(1)&gt;</p>');
});
