// Models kept in the browser's private storage (OPFS): gull/KEY.gguf beside gull/KEY.json {url, size, etag, sha256, complete}.
// The file's length is how much of it is there; an interrupted download goes on from it.
const FOLDER = 'gull';

export const hasStore = () => typeof navigator === 'object' && typeof navigator.storage?.getDirectory === 'function';

async function folder() {
  return (await navigator.storage.getDirectory()).getDirectoryHandle(FOLDER, {create: true});
}

/** The name that a URL's files have. */
export async function keyOf(url) {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(url)));
  return [...digest.slice(0, 16)].map(byte => byte.toString(16).padStart(2, '0')).join('');
}

export async function readMeta(key) {
  try {
    return JSON.parse(await (await (await (await folder()).getFileHandle(`${key}.json`)).getFile()).text());
  } catch { return undefined; }   // absent, or cut short by a crash: as good as absent
}

/** For workers: a synchronous handle on one file, made where it is not there. */
async function syncHandle(name) {
  return (await (await folder()).getFileHandle(name, {create: true})).createSyncAccessHandle();
}

export async function writeMeta(key, meta) {
  const handle = await syncHandle(`${key}.json`);
  try {
    handle.truncate(0);
    handle.write(new TextEncoder().encode(JSON.stringify(meta)), {at: 0});
    handle.flush();
  } finally { handle.close(); }
}

export const openData = key => syncHandle(`${key}.gguf`);
export const readData = async key => (await (await folder()).getFileHandle(`${key}.gguf`)).getFile();

export async function removeKey(key) {
  const home = await folder();
  for (const name of [`${key}.gguf`, `${key}.json`]) await home.removeEntry(name).catch(() => {});
}

/** What is kept: [{url, size, bytes, complete}]. */
export async function list() {
  if (!hasStore()) return [];
  const found = [];
  for await (const [name] of (await folder()).entries()) {
    if (!name.endsWith('.json')) continue;
    const key = name.slice(0, -5), meta = await readMeta(key);
    if (!meta) continue;
    const bytes = await readData(key).then(file => file.size, () => 0);
    found.push({url: meta.url, size: meta.size, bytes, complete: meta.complete && bytes === meta.size});
  }
  return found;
}

export const remove = async url => removeKey(await keyOf(url));

/** Bytes that the page may still store; Infinity where the browser does not say. */
export async function freeBytes() {
  const {quota, usage} = await navigator.storage.estimate().catch(() => ({}));
  return quota === undefined ? Infinity : Math.max(0, quota - usage);
}
