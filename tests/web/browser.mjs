// Debian's Chromium, headless, with WebGPU on SwiftShader, driven by playwright-core.
import {createRequire} from 'node:module';
import fs from 'node:fs';
import path from 'node:path';

const {chromium} = createRequire(path.resolve(import.meta.dirname, '../../web/package.json'))('playwright-core');
export const dist = path.resolve(process.env.GULL_WEB_DIST ?? path.join(import.meta.dirname, '../../build-wasm/dist'));
export const data = path.resolve(import.meta.dirname, '../data');

const FLAGS = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-quic'];

export async function launch(flags = [], options = {}) {
  return chromium.launch({executablePath: process.env.GULL_CHROMIUM ?? '/usr/bin/chromium', headless: true, chromiumSandbox: false,
    args: [...FLAGS, ...flags], ...options});
}

/** A page that fails the test on any console error or uncaught exception; `problems` lists them. */
export async function open(context, url) {
  const page = await context.newPage(), problems = [];
  page.on('console', message => { if (message.type() === 'error') problems.push(message.text()); });
  page.on('pageerror', error => problems.push(error.stack ?? error.message));
  await page.goto(url);
  return {page, problems};
}

/** A folder for one test's scratch files. */
export function scratch(name) {
  const folder = fs.mkdtempSync(path.join(process.env.TMPDIR ?? '/tmp', `gull-${name}-`));
  process.on('exit', () => fs.rmSync(folder, {recursive: true, force: true}));
  return folder;
}
