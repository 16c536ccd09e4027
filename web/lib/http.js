// Ranges over HTTP: one try, and what its failure means.
import {GullError, humanBytes} from './errors.js';

const RETRIES_MS = [300, 1000, 3000];

const pause = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener('abort', () => { clearTimeout(timer); reject(new DOMException('cancelled', 'AbortError')); }, {once: true});
});

/** Asks for the bytes from `start` (to `end`, exclusive, where given).
 *  @returns {body, ranged, start, size, etag}: where the body really starts (0 from a server without ranges), the whole file's size */
export async function requestRange(url, start, end, signal) {
  let response;
  try {
    response = await fetch(url, {headers: {range: `bytes=${start}-${end === undefined ? '' : end - 1}`}, signal});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new GullError('input/output error', `${url} cannot be reached: is the address right, the network up, and does the server allow this page (CORS)?`);
  }
  const etag = response.headers.get('etag') ?? '';
  if (response.status === 206) {
    const range = /^bytes (\d+)-\d+\/(\d+)$/.exec(response.headers.get('content-range') ?? '');
    // Servers of other origins hide Content-Range unless they expose it: then the length of the body tells.
    const length = Number(response.headers.get('content-length'));
    if (!range && (end !== undefined || !length)) throw new GullError('unsupported', `${url}: the server does not say how large the file is (Content-Range)`);
    if (range && Number(range[1]) !== start) throw new GullError('input/output error', `${url}: the server sent another range than was asked for`);
    return {body: response.body, ranged: true, start, size: range ? Number(range[2]) : start + length, etag};
  }
  if (response.status === 200) {
    const size = Number(response.headers.get('content-length'));
    if (!size) throw new GullError('unsupported', `${url}: the server does not say how large the file is (Content-Length)`);
    return {body: response.body, ranged: false, start: 0, size, etag};
  }
  if (response.status === 416) return {body: undefined, ranged: true, start, size: start, etag};
  const kind = response.status === 404 || response.status === 410 ? 'not found' : 'input/output error';
  const hint = {401: ': it wants a login', 403: ': access is forbidden', 404: ': there is no such file'}[response.status] ?? '';
  throw Object.assign(new GullError(kind, `${url}: the server answered ${response.status}${hint}`),
    {final: response.status < 500 && response.status !== 429});
}

/** Streams [start, end) of a URL into `sink(chunk)`, going on after failures as long as tries bring bytes.
 *  @param known {size, etag} of an earlier part, which the answer must match; `onStart(answer)` sees each accepted answer
 *  @returns the file's size */
export async function stream(url, {start, end, signal, known = {}, onStart = () => {}, sink}) {
  let at = start, tries = 0, size = known.size;
  for (;;) {
    let failure;
    const before = at;
    try {
      const answer = await requestRange(url, at, end, signal);
      if (size !== undefined && (answer.size !== size || (known.etag && answer.etag && answer.etag !== known.etag)))
        throw Object.assign(new GullError('bad file', `${url} has changed on the server since the download began`), {final: true, changed: true});
      size = answer.size;
      await onStart(answer);
      const stop = end ?? size;
      let position = answer.start;
      if (answer.body && at < stop) {
        const reader = answer.body.getReader();
        try {
          while (at < stop) {
            const {done, value} = await reader.read();
            if (done) break;
            // A server without ranges begins at the beginning: what is there already is passed over.
            const chunk = value.subarray(Math.max(0, at - position), Math.max(0, stop - position));
            position += value.length;
            if (chunk.length) {
              await sink(chunk, at);
              at += chunk.length;
            }
          }
        } finally { reader.cancel().catch(() => {}); }
      }
      if (at >= stop) return size;
      failure = new GullError('input/output error', `${url}: the connection ended after ${humanBytes(at)} of ${humanBytes(size)}`);
    } catch (error) {
      if (error.name === 'AbortError' || error.name === 'QuotaExceededError' || error.final) throw error;
      const broken = `${url}: the connection broke after ${humanBytes(at)}${size ? ` of ${humanBytes(size)}: load it again to go on from there` : ''}`;
      failure = error instanceof GullError && at === 0 ? error : new GullError('input/output error', broken);
    }
    if (at > before) tries = 0;
    if (tries >= RETRIES_MS.length) throw failure;
    await pause(RETRIES_MS[tries++], signal);
  }
}
