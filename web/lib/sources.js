// Where a model's bytes come from, for a worker: a file, memory, or a URL with or without a copy in the browser's storage.
// A source is {name, size, read(offset, length, sink), done, close()}: `sink(bytes, at)` takes pieces in order, `done`
// resolves when nothing is left to fetch.
import {GullError, humanBytes} from './errors.js';
import {stream} from './http.js';
import * as store from './store.js';

const PIECE = 4 << 20;   // bytes read from storage at a time

/** A Blob, a File, or what a FileSystemFileHandle names. */
export function blobSource(blob, name = blob.name ?? 'model') {
  return {
    name, size: blob.size, done: Promise.resolve(), close() {},
    async read(offset, length, sink) {
      for (let at = 0; at < length; at += PIECE) {
        const end = Math.min(length, at + PIECE);
        let bytes;
        try { bytes = new Uint8Array(await blob.slice(offset + at, offset + end).arrayBuffer()); } catch {
          throw new GullError('input/output error', `${name} can no longer be read: was it moved, changed or evicted? Load it again`);
        }
        if (bytes.length !== end - at) throw new GullError('input/output error', `${name} became shorter while it was read`);
        sink(bytes, at);
      }
    },
  };
}

/** A URL whose bytes are fetched as they are asked for and not kept. */
async function rangeSource(url, {signal, size, progress}) {
  let total = 0;
  return {
    name: url, size, done: Promise.resolve(), close() {},
    async read(offset, length, sink) {
      await stream(url, {
        start: offset, end: offset + length, signal, known: {size},
        onStart: refuseWhole(url),
        sink: (chunk, at) => sink(chunk, at - offset),
      });
      total += length;
      progress(Math.min(total, size), size);
    },
  };
}

const refuseWhole = url => ({ranged}) => {
  if (!ranged) throw Object.assign(new GullError('unsupported',
    `${url}: the server gives no byte ranges, and the model is not kept in this browser: use another server, free storage, or choose a file`), {final: true});
};

/** A URL with a copy in storage. The download runs ahead by itself, from front to back; reads wait for their bytes.
 *  @param options {signal, sha256?, progress(done, total), notice(text), hasher} */
export async function urlSource(url, options) {
  const keep = options.store !== false && store.hasStore();
  const stored = keep ? await storedSource(url, options).catch(error => {
    if (error.name !== 'QuotaExceededError' && error.kind !== 'no store') throw error;
    options.notice(error.message);
    return undefined;
  }) : undefined;
  if (stored) return stored;
  const size = await stream(url, {start: 0, end: 4, signal: options.signal, sink: checkMagic(url), onStart: refuseWhole(url)});
  return rangeSource(url, {...options, size});
}

/** Refuses a page or a Git LFS pointer before any of it is kept. */
const checkMagic = url => (chunk, at) => {
  if (at > 0 || chunk.length < 4) return;
  const magic = new TextDecoder('latin1').decode(chunk.subarray(0, 7));
  if (magic.startsWith('GGUF')) return;
  const what = /^<(!|h|\?)/i.test(magic) ? 'a web page' : magic === 'version' ? 'a Git LFS pointer' : 'something else';
  throw Object.assign(new GullError('bad file', `${url} is no GGUF file but ${what}`), {final: true});
};

async function storedSource(url, options, again = false) {
  const key = await store.keyOf(url);
  const release = await lock(key, options);
  let handle;
  try {
    let meta = await store.readMeta(key);
    if (meta?.complete) {
      const file = await store.readData(key).catch(() => undefined);
      if (file?.size === meta.size) {
        if (!options.sha256 || options.sha256 === meta.sha256 || await hashBlob(file, options.hasher) === options.sha256) {
          release();
          options.progress(meta.size, meta.size);
          return blobSource(file, url);
        }
        await store.removeKey(key);   // kept under another hash: fetch it anew
      }
      meta = undefined;
    }
    handle = await store.openData(key).catch(() => { throw new GullError('no store', 'this browser cannot write files for this page: the model will not be kept'); });
    if (!meta) handle.truncate(0);
    return await startDownload({url, key, meta, handle, release, options});
  } catch (error) {
    handle?.close();
    release();
    if (error.changed && !again) return storedSource(url, options, true);   // another file by now: from its beginning
    throw error;
  }
}

/** One page at a time downloads a URL; the others wait, then find it complete. */
function lock(key, {signal, notice}) {
  if (!navigator.locks) return Promise.resolve(() => {});
  return new Promise((resolve, reject) => {
    const hold = () => new Promise(release => resolve(release));
    navigator.locks.request(`gull:${key}`, {ifAvailable: true}, async granted => {
      if (granted) return hold();
      notice('another tab is downloading this model: waiting for it');
      navigator.locks.request(`gull:${key}`, {signal}, hold).catch(reject);
    }).catch(reject);
  });
}

async function hashBlob(blob, hasher) {
  const source = blobSource(blob);
  await source.read(0, blob.size, bytes => hasher.update(bytes));
  return hasher.hex();
}

/** Starts (or goes on with) a download; returns once the file's size is known. */
async function startDownload({url, key, meta, handle, release, options}) {
  const {signal, sha256, progress, hasher, notice} = options;
  let have = meta ? Math.min(handle.getSize(), meta.size) : 0;
  let size = meta?.size, etag = meta?.etag ?? '', failure, storing = true, complete = false;
  const waiters = [];
  const wake = () => { for (const waiter of waiters.splice(0)) waiter(); };
  let started, refused;
  const ready = new Promise((resolve, reject) => { started = resolve; refused = reject; });
  ready.catch(() => {});

  async function begin(answer) {
    const free = await store.freeBytes();
    if (answer.size - have > free)
      throw Object.assign(new GullError('no store', `the model has ${humanBytes(answer.size)} and this page may store ${humanBytes(free)} more: it is loaded without being kept`), {final: true});
    if (size === undefined) {
      ({size, etag} = answer);
      await store.writeMeta(key, {url, size, etag, complete: false});
    }
    started();
  }
  function write(chunk, at) {
    if (at === 0) checkMagic(url)(chunk, at);
    const written = handle.write(chunk, {at});
    if (written !== chunk.length) throw new DOMException('storage is full', 'QuotaExceededError');
    if (sha256) hasher.update(chunk);
    have = at + chunk.length;
    progress(have, size);
    wake();
  }
  function rehash() {   // what an earlier visit brought
    const piece = new Uint8Array(PIECE);
    for (let at = 0; at < have; at += piece.length) {
      const length = handle.read(piece.subarray(0, Math.min(piece.length, have - at)), {at});
      hasher.update(piece.subarray(0, length));
    }
  }
  async function run() {
    if (sha256 && have) rehash();
    await stream(url, {start: have, signal, known: {size, etag}, onStart: begin, sink: write});
    const digest = sha256 && hasher.hex();
    if (digest && digest !== sha256)
      throw new GullError('bad file', `${url} has SHA-256 ${digest}, expected ${sha256}: the copy was thrown away`);
    handle.flush();
    await store.writeMeta(key, {url, size, etag, sha256: digest || undefined, complete: true});
    complete = true;
  }
  async function settle(error) {
    const keepPart = error && !error.changed && error.kind !== 'bad file' && error.kind !== 'no store';
    if (error?.name === 'QuotaExceededError') {
      // No room for the rest: go on by ranges, without keeping it.
      storing = false;
      notice(`storage is full after ${humanBytes(have)}: the model is loaded without being kept`);
    }
    if (error && storing) failure = error;   // before the handle closes under a reader
    if (sha256 && error) hasher.hex();   // the next download starts a fresh digest
    if (!storing || (error && !keepPart)) handle.truncate(0);
    handle.close();
    if (!storing || (error && !keepPart)) await store.removeKey(key);
    release();
    wake();
  }
  const done = run().then(() => settle(), async error => {
    await settle(error);
    refused(error);
    if (storing) throw error;
  });
  done.catch(() => {});
  await ready;

  let after;   // what serves reads once the handle is closed
  const source = {
    name: url, size, done, close() {},
    async read(offset, length, sink) {
      while (!complete && storing && !failure && have < offset + length) await new Promise(resolve => waiters.push(resolve));
      if (failure) {
        await done.catch(() => {});   // the copy is tidied away first
        throw failure;
      }
      if (!storing) {
        after ??= rangeSource(url, {signal, size, progress: () => {}});
        return (await after).read(offset, length, sink);
      }
      if (complete) {
        await done;
        after ??= store.readData(key).then(file => blobSource(file, url));
        return (await after).read(offset, length, sink);
      }
      const piece = new Uint8Array(Math.min(length, PIECE));
      for (let at = 0; at < length; at += piece.length) {
        const part = piece.subarray(0, Math.min(piece.length, length - at));
        if (handle.read(part, {at: offset + at}) !== part.length) throw new GullError('input/output error', `${url}: the browser's storage lost a part of the model: load it again`);
        sink(part, at);
      }
    },
  };
  return source;
}

/** The names of all parts of a split model, given one; just that one for others. */
export function partsOf(url) {
  const match = /^(.*-)(\d{5})-of-(\d{5})(\.gguf)((\?.*)?)$/.exec(url);
  if (!match) return [url];
  return Array.from({length: Number(match[3])}, (_, i) => `${match[1]}${String(i + 1).padStart(5, '0')}-of-${match[3]}${match[4]}${match[5]}`);
}
