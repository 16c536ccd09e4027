// The demo page: choose a model, talk to it.
import {Gull, humanBytes} from '../index.js';
import {renderMarkdown} from './markdown.js';
import {bindSettings, loading, sampling, settings} from './settings.js';

const $ = id => document.getElementById(id);
let model, generation, loadAbort;
let messages = [];
let lost = false;

// ---- what is shown
function show(name) {
  for (const section of ['start', 'loading', 'chat']) $(section).hidden = section !== name;
  $('models-button').hidden = name !== 'chat';
  $('model-name').hidden = name !== 'chat';
  if (name === 'chat') $('prompt').focus();
}

function banner(text, button, action) {
  $('banner').hidden = !text;
  $('banner-text').textContent = text ?? '';
  $('banner-button').hidden = !button;
  $('banner-button').textContent = button ?? '';
  $('banner-button').onclick = action;
}

const duration = seconds => (seconds < 60 ? `${Math.ceil(seconds)}\u00a0s` : `${Math.floor(seconds / 60)}\u00a0min ${Math.ceil(seconds % 60)}\u00a0s`);

// ---- choosing
async function offers() {
  const known = await fetch('models.json').then(r => (r.ok ? r.json() : []), () => []);
  const stored = await Gull.stored().catch(() => []);
  const absolute = url => new URL(url, document.baseURI).href;
  const listed = known.map(entry => ({...entry, url: absolute(entry.url), stored: stored.find(s => s.url === absolute(entry.url))}));
  const others = stored.filter(s => !listed.some(entry => entry.url === s.url));
  return [...listed, ...others.map(s => ({name: decodeURIComponent(s.url.split('/').pop().split('?')[0]), url: s.url, size: s.size, stored: s}))];
}

function offerItem({name, url, size, sha256, stored}) {
  const item = document.createElement('li'), load = document.createElement('button');
  load.type = 'button';
  load.className = 'load';
  const label = document.createElement('span'), state = document.createElement('span');
  label.className = 'name';
  label.textContent = name;
  state.className = 'quiet';
  state.textContent = [size && humanBytes(size), !stored ? '' : stored.complete ? 'in this browser' : `${humanBytes(stored.bytes)} of it here`].filter(Boolean).join(', ');
  load.append(label, state);
  load.onclick = () => open(url, name, {sha256});
  item.append(load);
  if (stored) {
    const remove = document.createElement('button');
    remove.type = 'button';
    remove.textContent = 'Remove';
    remove.setAttribute('aria-label', `Remove ${name} from this browser`);
    remove.onclick = async () => { await Gull.remove(url); await listModels(); $('start-title').scrollIntoView(); };
    item.append(remove);
  }
  return item;
}

const listModels = async () => $('model-list').replaceChildren(...(await offers()).map(offerItem));

// ---- loading
let fetching = false;

function showProgress({stage, done, total, bytesPerSecond, secondsLeft}) {
  const words = {download: 'Fetching', upload: 'To the GPU', compile: 'Preparing', read: 'Reading'};
  if (stage === 'download') fetching = done < total;
  else if (fetching) return;   // what arrives goes to the GPU at once: one bar for both
  if (stage === 'upload' && done === total) {
    $('bar').removeAttribute('value');
    $('progress-text').textContent = 'Preparing the GPU';
    return;
  }
  if (total) $('bar').value = done / total;
  else $('bar').removeAttribute('value');
  $('progress-text').textContent = [`${words[stage] ?? stage}: ${humanBytes(done)} of ${humanBytes(total)}`,
    done < total && bytesPerSecond && `${humanBytes(Math.round(bytesPerSecond))}/s`, done < total && secondsLeft && `${duration(secondsLeft)} left`].filter(Boolean).join(', ');
}

async function open(source, name, options = {}) {
  banner();
  await close();
  $('loading-title').textContent = `Loading ${name}`;
  $('progress-text').textContent = 'Starting';
  $('notice').textContent = '';
  $('bar').removeAttribute('value');
  show('loading');
  $('cancel-button').focus();
  fetching = false;
  loadAbort = new AbortController();
  try {
    model = await Gull.load(source, {...loading(), ...options, signal: loadAbort.signal, onProgress: showProgress, onNotice: text => { $('notice').textContent = text; }});
    $('model-name').textContent = `${model.info.name} on ${model.info.device.name}`;
    if (model.info.embedding) banner('This model turns text into vectors; it does not chat.');
    else if (!model.info.chat) banner('This model has no chat format: it continues your text as it stands.');
    lost = false;
    startConversation();
    show('chat');
  } catch (error) {
    show('start');
    await listModels();
    if (error.kind !== 'cancelled') banner(error.message);
    $('start-title').scrollIntoView();
  }
}

async function close() {
  generation?.stop();
  const old = model;
  model = undefined;
  await old?.dispose();
}

// ---- talking
function bubble(role, text = '') {
  const node = document.createElement('div');
  node.className = `message ${role}`;
  node.setAttribute('aria-label', role === 'user' ? 'You' : 'The model');
  node.textContent = text;
  $('log').append(node);
  node.scrollIntoView({block: 'end'});
  return node;
}

function startConversation() {
  messages = [];
  $('log').replaceChildren();
  $('speed').textContent = '';
  model.session.reset().catch(() => {});
  enable();
}

function enable() {
  const busy = !!generation;
  $('send').hidden = busy;
  $('stop').hidden = !busy;
  $('regenerate').disabled = busy || !messages.some(m => m.role === 'assistant');
  $('clear').disabled = busy || messages.length === 0;
}

async function report(result, started) {
  const {generatedTokens, generateSeconds, promptTokens, promptSeconds, cachedTokens} = result.timings;
  const rate = (tokens, seconds) => (seconds > 0 ? (tokens / seconds).toFixed(1) : '–');
  const [{memory}, {wasmBytes}] = await Promise.all([model.stats(), model.measure()]);
  const ends = {length: 'stopped at the longest answer', context: 'the context is full: start a new conversation', cancelled: 'stopped'};
  $('speed').textContent = [`${rate(generatedTokens, generateSeconds)} tokens/s`, `prompt ${rate(promptTokens - cachedTokens, promptSeconds)} tokens/s`,
    `first word after ${duration(started)}`, `${humanBytes(memory.total)} on the GPU`, `${humanBytes(wasmBytes)} in the program`, ends[result.stop]].filter(Boolean).join(' · ');
}

async function answer() {
  const node = bubble('assistant'), begun = performance.now();
  let text = '', first, drawing = false;
  const draw = () => {
    drawing = false;
    const atEnd = $('log').scrollHeight - $('log').scrollTop - $('log').clientHeight < 80;
    node.replaceChildren(...renderMarkdown(text));
    if (atEnd) $('log').scrollTop = $('log').scrollHeight;
  };
  const conversation = settings.system ? [{role: 'system', content: settings.system}, ...messages] : messages;
  generation = model.generate(model.info.chat ? conversation : messages.map(m => m.content).join('\n'), sampling());
  enable();
  $('stop').focus();
  try {
    for await (const piece of generation) {
      first ??= (performance.now() - begun) / 1000;
      text += piece.text;
      if (!drawing) { drawing = true; requestAnimationFrame(draw); }
    }
    const result = await generation.result;
    messages.push({role: 'assistant', content: result.text});
    draw();
    await report(result, first ?? 0);
  } catch (error) {
    node.classList.add('failed');
    if (!text) node.remove();
    failed(error);
  } finally {
    generation = undefined;
    enable();
    $('prompt').focus();
  }
}

function failed(error) {
  lost = error.kind === 'device error';
  if (lost) banner(error.message, 'Load the model again', reload);
  else banner(error.message);
}

async function reload() {
  banner();
  show('loading');
  loadAbort = new AbortController();
  try {
    await model.reload({signal: loadAbort.signal, onProgress: showProgress});
    lost = false;
    show('chat');
    enable();
  } catch (error) {
    show('start');
    if (error.kind !== 'cancelled') banner(error.message);
  }
}

function send() {
  const text = $('prompt').value.trim();
  if (!text || generation || !model || lost) return;
  banner();
  $('prompt').value = '';
  grow();
  messages.push({role: 'user', content: text});
  bubble('user', text);
  answer();
}

function regenerate() {
  if (messages.at(-1)?.role === 'assistant') {
    messages.pop();
    $('log').lastElementChild?.remove();
  }
  answer();
}

function grow() {
  $('prompt').style.height = 'auto';
  $('prompt').style.height = `${$('prompt').scrollHeight + 2}px`;
}

// ---- wiring
$('prompt-form').onsubmit = event => { event.preventDefault(); send(); };
$('prompt').oninput = grow;
$('prompt').onkeydown = event => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
};
document.addEventListener('keydown', event => { if (event.key === 'Escape' && generation && !$('settings').open) generation.stop(); });
$('stop').onclick = () => generation?.stop();
$('regenerate').onclick = regenerate;
$('clear').onclick = startConversation;
$('cancel-button').onclick = () => loadAbort?.abort();
$('models-button').onclick = async () => { await close(); banner(); show('start'); await listModels(); };
$('settings-button').onclick = () => $('settings').showModal();
$('url-form').onsubmit = event => { event.preventDefault(); open($('url').value, $('url').value.split('/').pop()); };
const openFiles = files => { if (files.length) open(files.length === 1 ? files[0] : [...files], files[0].name); };
$('file').onchange = event => { openFiles(event.target.files); };
for (const [type, over] of [['dragenter', true], ['dragover', true], ['dragleave', false], ['drop', false]])
  document.addEventListener(type, event => {
    event.preventDefault();
    $('drop').classList.toggle('over', over);
    if (type === 'drop') openFiles(event.dataTransfer.files);
  });

bindSettings($('settings').querySelector('form'));
const support = await Gull.support();
$('support').textContent = support.ok
  ? `GPU: ${[support.gpu.vendor, support.gpu.architecture].filter(Boolean).join(' ') || 'unnamed'}${support.gpu.software ? ' (software: slow)' : ''}. ${support.storage ? `Room for models: ${humanBytes(support.freeBytes)}.` : 'Models cannot be kept in this browser.'}`
  : support.reasons.join('. ');
await listModels();
navigator.serviceWorker?.register('sw.js').catch(() => {});   // works all the same, but not offline
document.body.dataset.ready = 'true';
