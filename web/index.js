// gull-web: language models in GGUF files, on this browser's GPU. The engine runs in a worker; see index.d.ts for the types.
import {GullError} from './lib/errors.js';
import * as store from './lib/store.js';
export {GullError};
export {humanBytes} from './lib/errors.js';

/** The worker, as promises. */
class Engine {
  #worker; #waiting = new Map(); #next = 1; #dead;

  constructor() {
    this.#worker = new Worker(new URL('./worker.js', import.meta.url), {type: 'module', name: 'gull'});
    this.#worker.onmessage = ({data}) => {
      const waiter = this.#waiting.get(data.id);
      if (!waiter) return;
      if (data.event) { waiter.onEvent?.(data.event); return; }
      this.#waiting.delete(data.id);
      if (data.error) waiter.reject(new GullError(data.error.kind, data.error.message));
      else waiter.resolve(data.result);
    };
    this.#worker.onerror = error => this.end(new GullError('internal error', `the engine's worker failed: ${error.message ?? 'it could not be started'}`));
  }

  call(op, body = {}, {signal, onEvent} = {}) {
    if (this.#dead) return Promise.reject(this.#dead);
    if (signal?.aborted) return Promise.reject(new GullError('cancelled', 'cancelled'));
    const id = this.#next++;
    const cancel = () => this.#worker.postMessage({op: 'cancel', target: id});
    signal?.addEventListener('abort', cancel, {once: true});
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, {resolve, reject, onEvent});
      this.#worker.postMessage({...body, op, id});
    }).finally(() => signal?.removeEventListener('abort', cancel));
  }

  /** Ends the worker; whatever waits fails with `error`. */
  end(error) {
    this.#dead ??= error;
    this.#worker.terminate();
    for (const {reject} of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

/** Adds bytes a second and seconds left to progress events. */
function timed(onProgress) {
  const first = {};
  return event => {
    const now = performance.now(), {stage, done, total} = event;
    first[stage] ??= {at: now, done};
    const seconds = (now - first[stage].at) / 1000, bytesPerSecond = seconds > 0.2 ? (done - first[stage].done) / seconds : undefined;
    onProgress({stage, done, total, bytesPerSecond, secondsLeft: bytesPerSecond > 0 ? (total - done) / bytesPerSecond : undefined});
  };
}

/** Generated text as it comes: iterate over the pieces, or await `result` for all of it. */
class Generation {
  #pieces = []; #wake; #ended = false; #abort = new AbortController();

  constructor(engine, body, signal) {
    const stop = () => this.#abort.abort();
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, {once: true});
    const push = event => {
      if (event.type !== 'piece') return;
      this.#pieces.push({text: event.text, id: event.id, ...(event.logprobs && {logprobs: event.logprobs})});
      this.#wake?.();
    };
    this.result = engine.call('generate', body, {signal: this.#abort.signal, onEvent: push}).finally(() => {
      signal?.removeEventListener('abort', stop);
      this.#ended = true;
      this.#wake?.();
    });
    this.result.catch(() => {});   // it is thrown to whoever iterates or awaits
  }

  stop() { this.#abort.abort(); }

  async *[Symbol.asyncIterator]() {
    let finished = false;
    try {
      for (;;) {
        while (this.#pieces.length) yield this.#pieces.shift();
        if (this.#ended) break;
        await new Promise(resolve => { this.#wake = resolve; });
      }
      finished = true;
    } finally {
      if (!finished) this.stop();   // the loop was left early
    }
    await this.result;
  }
}

class Session {
  #model; #id;
  constructor(model, id) { this.#model = model; this.#id = id; }

  generate(prompt, {signal, ...options} = {}) {
    const input = typeof prompt === 'string' ? {text: prompt} : typeof prompt[0] === 'number' ? {ids: [...prompt]} : {messages: prompt};
    return new Generation(this.#model.engine, {...input, session: this.#id, options}, signal);
  }
  async logits(ids, {all = false} = {}) {
    const {values, vocabulary} = await this.#model.engine.call('logits', {session: this.#id, ids: [...ids], all});
    return {values, vocabulary};
  }
  async embed(text, options = {}) {
    const input = typeof text === 'string' ? {text} : {ids: [...text]};
    return (await this.#model.engine.call('embed', {...input, session: this.#id, options})).values;
  }
  async reset() { await this.#model.engine.call('reset', {session: this.#id}); }
  async truncate(tokens) { return (await this.#model.engine.call('truncate', {session: this.#id, tokens})).position; }
  async dispose() { await this.#model.engine.call('deleteSession', {session: this.#id}); }
}

class Model {
  #source; #options;
  constructor(source, options) { this.#source = source; this.#options = options; }

  /** Starts a worker and loads the model in it. */
  async open({onProgress, onNotice, signal} = {}) {
    const progress = timed(onProgress ?? (() => {}));
    const engine = new Engine();
    const onEvent = event => {
      if (event.type === 'progress') progress(event);
      else if (event.type === 'notice') onNotice?.(event.text);
      else if (event.type === 'log') console.warn(event.text);
    };
    try {
      this.info = await engine.call('load', {source: this.#source, options: this.#options}, {signal, onEvent});
    } catch (error) {
      engine.end(error);
      throw error;
    }
    this.engine = engine;
    this.session = new Session(this, this.info.session);
    return this;
  }

  generate(prompt, options) { return this.session.generate(prompt, options); }
  embed(text, options) { return this.session.embed(text, options); }
  async createSession() { return new Session(this, (await this.engine.call('newSession')).session); }
  async tokenize(text, {addSpecial = true, parseSpecial = true} = {}) {
    return (await this.engine.call('tokenize', {text, addSpecial, parseSpecial})).ids;
  }
  async detokenize(ids, {special = false} = {}) { return (await this.engine.call('detokenize', {ids: [...ids], special})).text; }
  async applyChatTemplate(messages, options = {}) { return (await this.engine.call('applyTemplate', {messages, options})).ids; }
  stats() { return this.engine.call('stats'); }
  measure() { return this.engine.call('measure'); }

  /** Opens the model anew, after the GPU was lost say. Sessions made before are gone. */
  async reload(callbacks) {
    this.engine.end(new GullError('not initialised', 'the model was reloaded'));
    return this.open(callbacks);
  }
  async dispose() {
    await this.engine.call('close').catch(() => {});
    this.engine.end(new GullError('not initialised', 'the model was disposed of'));
  }
}

/** What a source may be, in a form that a worker takes. */
async function plainSource(source) {
  if (source instanceof URL || typeof source === 'string') return new URL(source, document.baseURI).href;
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return new Blob([source]);
  if (typeof source?.getFile === 'function') return source.getFile();
  if (Array.isArray(source)) return Promise.all(source.map(plainSource));
  if (source instanceof Blob) return source;
  throw new GullError('invalid argument', 'a model is given as a URL, a File or Blob, a file handle, an ArrayBuffer, or a list of Files');
}

async function describeGpu() {
  const adapter = await navigator.gpu.requestAdapter({powerPreference: 'high-performance'}).catch(() => null);
  if (!adapter) return undefined;
  const {info, limits, features} = adapter;
  return {
    vendor: info?.vendor ?? '', architecture: info?.architecture ?? '', description: info?.description ?? '',
    software: info?.isFallbackAdapter ?? adapter.isFallbackAdapter ?? false,
    f16: features.has('shader-f16'), subgroups: features.has('subgroups'), timestamps: features.has('timestamp-query'),
    maxBufferSize: limits.maxBufferSize, maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
  };
}

export const Gull = {
  /** What this browser can do, and why not. */
  async support() {
    const reasons = [];
    if (typeof WebAssembly !== 'object') reasons.push('this browser has no WebAssembly');
    if (!globalThis.isSecureContext) reasons.push('the page is not secure: serve it over https, or from localhost');
    else if (!navigator.gpu) reasons.push('this browser has no WebGPU: use a current Chrome, Edge, Safari or Firefox');
    const gpu = navigator.gpu && await describeGpu();
    if (navigator.gpu && !gpu) reasons.push('WebGPU finds no usable GPU: is graphics acceleration switched on in the browser\'s settings?');
    const storage = store.hasStore();
    return {
      ok: reasons.length === 0, reasons, gpu, storage,
      jspi: 'Suspending' in WebAssembly, freeBytes: storage ? await store.freeBytes() : 0,
    };
  },

  async load(source, {onProgress, onNotice, signal, ...options} = {}) {
    const plain = await plainSource(source);
    // Asked of the page, not of the worker: a browser that grants it will not evict the model.
    if (typeof plain === 'string' && options.store !== false) navigator.storage?.persist?.().catch(() => {});
    return new Model(plain, options).open({onProgress, onNotice, signal});
  },

  /** The models in this browser's storage. */
  stored: () => store.list(),
  remove: url => store.remove(new URL(url, document.baseURI).href),
};

export default Gull;
