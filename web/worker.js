// The engine's worker: one wasm program, one model. Messages in: {id, op, …}; out: {id, result | error} and {id, event}.
import {start, hasJspi} from './lib/runtime.js';
import {createWebGPU} from './lib/webgpu.js';
import {GullError, KINDS, asGullError} from './lib/errors.js';
import {createUnicode} from './lib/unicode.js';
import {createPatterns} from './lib/patterns.js';
import {blobSource, urlSource, partsOf} from './lib/sources.js';

const PROGRESS_MS = 50;
let program, gpu;
let running;                      // the id of the request that the program works on
const cancelled = new Set();      // ids that were cancelled before their turn
const aborts = new Map();         // downloads by the id of the load that began them
const sources = [];
const crossings = {};             // calls into JavaScript by name, when they are counted

const send = (id, message, transfer) => postMessage({id, ...message}, transfer ?? []);
const event = (id, body) => send(id, {event: body});

/** An event function that lets at most one progress message of a stage through every PROGRESS_MS, and each last one. */
function progressSender(id) {
  const last = {};
  return (stage, done, total) => {
    const now = performance.now(), before = last[stage] ?? {at: -Infinity};
    if (done === before.done || (done < total && now - before.at < PROGRESS_MS)) return;
    last[stage] = {at: now, done};
    event(id, {type: 'progress', stage, done, total});
  };
}

function imports({memory}, {count, asHardware, uploaded}) {
  gpu = createWebGPU(memory, navigator.gpu, {asHardware});
  const env = {
    ...gpu.env,
    gull_unicode: createUnicode(memory),
    ...createPatterns(memory),
    gull_event(text, length) { event(running, JSON.parse(memory.text(text, length))); },
    async gull_read(id, offset, out, length, message, capacity) {
      try {
        await sources[id].read(offset, length, (bytes, at) => memory.bytes.set(bytes, (out >>> 0) + at));
        uploaded(length);
        return 0;
      } catch (error) {
        const known = asGullError(error);
        memory.writeText(message, capacity, known.message);
        return 1 + Math.max(0, KINDS.indexOf(known.kind));
      }
    },
  };
  if (count)
    for (const [name, call] of Object.entries(env)) env[name] = (...args) => { crossings[name] = (crossings[name] ?? 0) + 1; return call(...args); };
  return {env, suspending: [...gpu.suspending, 'gull_read'], bind: gpu.bind};
}

/** One request of the program; its answer as a message. */
async function request(body) {
  const {memory, exports} = program;
  const [text, length] = memory.allocText(JSON.stringify(body));
  try {
    const reply = JSON.parse(memory.cString(await program.call('gull_request', text, length)));
    if (reply.error) throw new GullError(reply.error.kind, reply.error.message);
    if (reply.floats) reply.result.values = new Float32Array(memory.buffer.slice(reply.floats[0], reply.floats[0] + 4 * reply.floats[1]));
    return reply.result;
  } finally { exports.free(text); }
}

/** SHA-256 in wasm: the browser's own takes whole buffers only. */
function hasher() {
  const {memory, exports} = program;
  return {
    update(bytes) {
      const p = memory.alloc(bytes.length);
      memory.bytes.set(bytes, p);
      exports.gull_sha256_update(p, bytes.length);
      exports.free(p);
    },
    hex: () => memory.cString(exports.gull_sha256_hex()),
  };
}

async function openSources(id, source, options, report) {
  if (source instanceof Blob) return [blobSource(source)];
  if (Array.isArray(source)) return source.map(blob => blobSource(blob));
  const abort = new AbortController();
  aborts.set(id, abort);
  const urls = partsOf(source), done = new Array(urls.length).fill(0), totals = [...done], opened = [];
  for (const [i, url] of urls.entries())
    opened.push(await urlSource(url, {
      signal: abort.signal, store: options.store, sha256: urls.length === 1 ? options.sha256?.toLowerCase() : undefined, hasher: hasher(),
      notice: text => event(id, {type: 'notice', text}),
      progress(bytes, total) {
        [done[i], totals[i]] = [bytes, total];
        report('download', done.reduce((a, b) => a + b), totals.reduce((a, b) => a + b));
      },
    }));
  return opened;
}

async function load({id, source, options}) {
  const jspi = options.jspi ?? hasJspi();
  const report = progressSender(id);
  let bytes = 0, total = 0;
  program = await start({
    bytes: await fetch(jspi ? new URL('./gull.wasm', import.meta.url) : new URL('./gull.asyncify.wasm', import.meta.url)), jspi,
    imports: context => imports(context, {count: options.count, asHardware: options.asHardware, uploaded: n => report('upload', Math.min(bytes += n, total), total)}),
    print: line => event(id, {type: 'log', text: line}),
  });
  const opened = await openSources(id, source, options, report);
  sources.push(...opened);
  total = opened.reduce((sum, s) => sum + s.size, 0);
  try {
    const info = await request({op: 'open', sources: opened.map(({name, size}, i) => ({id: i, name, size})), options});
    const {session} = await request({op: 'newSession'});
    if (options.warm !== false) await request({op: 'warm', session});
    await Promise.all(opened.map(s => s.done));   // the whole file is there, and its hash is right
    report('upload', total, total);
    return {...info, session, jspi};
  } catch (error) {
    // A broken download says more than the reader that missed its bytes.
    await Promise.race([Promise.all(opened.map(s => s.done)), new Promise(resolve => setTimeout(resolve, 50))]);
    throw error;
  } finally { aborts.delete(id); }
}

const immediate = {
  cancel({target}) {
    aborts.get(target)?.abort();
    if (running === target) program?.exports.gull_cancel();
    else cancelled.add(target);
  },
  /** For tests: what a driver does when it resets. */
  loseDevice() { for (const device of gpu.devices()) device.destroy(); },
};

const inTurn = {
  load,
  async measure() { return {wasmBytes: program.memory.buffer.byteLength, handles: gpu.live(), crossings: {...crossings}}; },
};

let last = Promise.resolve();
onmessage = ({data}) => {
  if (immediate[data.op]) {
    immediate[data.op](data);
    send(data.id, {result: {}});
    return;
  }
  last = last.then(async () => {
    running = data.id;
    try {
      if (cancelled.delete(data.id)) throw new GullError('cancelled', 'cancelled');
      const result = await (inTurn[data.op] ?? request)(data);
      send(data.id, {result}, result.values ? [result.values.buffer] : []);
    } catch (error) {
      const {kind, message} = asGullError(error);
      send(data.id, {error: {kind, message}});
    }
    running = undefined;
  });
};
