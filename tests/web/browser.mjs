// Debian's Chromium, headless, with WebGPU on SwiftShader, driven by playwright-core.
import {createRequire} from 'node:module';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

export const here = path.dirname(fileURLToPath(import.meta.url));
const {chromium} = createRequire(path.join(here, '../../web/package.json'))('playwright-core');
export const dist = path.resolve(process.env.GULL_WEB_DIST ?? path.join(here, '../../build-wasm/dist'));
export const data = path.join(here, '../data');

/** Where `gull pull` keeps models, and the one that these tests use when it is there. */
export const models = path.join(process.env.XDG_CACHE_HOME ?? path.join(os.homedir(), '.cache'), 'gull');
export const SMOLLM2 = 'SmolLM2-135M-Instruct.Q4_1.gguf';
export const noSmolLm2 = fs.existsSync(path.join(models, SMOLLM2)) ? false : `${SMOLLM2} is not in ${models}: gull pull smollm2-135m`;

const FLAGS = ['--enable-unsafe-webgpu', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-quic'];

/** @param adapter 'swiftshader' computes on the CPU, 'default' on what the machine has */
export const launch = (adapter = 'swiftshader') => chromium.launch(howToStart(adapter));

/** A browser with a profile on disk. The contexts of others keep in memory what they store, and no file beyond 2 GiB. */
export const launchWithProfile = folder => chromium.launchPersistentContext(folder, howToStart('swiftshader'));

const howToStart = adapter => ({
  executablePath: process.env.GULL_CHROMIUM ?? '/usr/bin/chromium', headless: true, chromiumSandbox: false,
  args: [...FLAGS, ...(adapter === 'default' ? [] : [`--use-webgpu-adapter=${adapter}`])],
});

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
