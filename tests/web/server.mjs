// A static server for the tests, with the faults that a download meets: no range support, an end in the middle, a wrong size, a 404,
// a slow line. `faults` may be changed between requests. Files may also be made while they are sent: see synthetic.mjs.
import http from 'node:http';
import fs from 'node:fs';
import path from 'node:path';

const TYPES = {'.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm',
  '.json': 'application/json', '.webmanifest': 'application/manifest+json', '.svg': 'image/svg+xml', '.png': 'image/png'};
const CHUNK = 1 << 18;   // sent at a time

/** {size, etag, read(start, end)} of what a name stands for: in the longest matching folder, or made; null for nothing. */
function find(name, folders, made) {
  if (made[name]) return {size: made[name].size, etag: `"${name}"`, read: (start, end) => filled(made[name].parts, start, end)};
  const prefix = Object.keys(folders).filter(p => name.startsWith(p)).sort((a, b) => b.length - a.length)[0];
  let file = path.join(folders[prefix], name.slice(prefix.length));
  if (name.endsWith('/')) file = path.join(file, 'index.html');
  const stat = file.startsWith(path.resolve(folders[prefix])) && fs.statSync(file, {throwIfNoEntry: false});
  if (!stat || stat.isDirectory()) return null;
  return {size: stat.size, etag: `"${stat.size}-${stat.mtimeMs}"`, type: TYPES[path.extname(file)],
    read: (start, end) => fs.createReadStream(file, {start, end: end - 1, highWaterMark: CHUNK})};
}

/** The bytes [start, end) of zeros with `parts` laid over them. */
function* filled(parts, start, end) {
  for (let at = start; at < end; at += CHUNK) {
    const chunk = Buffer.alloc(Math.min(CHUNK, end - at));
    for (const part of parts)
      if (part.at < at + chunk.length && part.at + part.bytes.length > at)
        part.bytes.copy(chunk, Math.max(0, part.at - at), Math.max(0, at - part.at));
    yield chunk;
  }
}

/** @param folders {'/prefix/': folder}; the longest matching prefix serves. `/` is required.
 *  @param made {'/name': {size, parts}}  @param headers sent with every answer
 *  @returns {url, faults, requests, stop(), start(), close()} */
export async function serve(folders, {made = {}, headers: always = {}} = {}) {
  const faults = {noRange: false, dieAfter: Infinity, bytesPerSecond: Infinity};
  const requests = [];
  const sockets = new Set();
  const server = http.createServer(async (request, response) => {
    response.setMaxListeners(0);
    const name = decodeURIComponent(new URL(request.url, 'http://local').pathname), found = find(name, folders, made);
    if (!found) {
      response.writeHead(404, {'content-type': 'text/plain', 'access-control-allow-origin': '*'}).end('not here');
      return;
    }
    const {size, etag, type} = found, range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
    requests.push({name, range: request.headers.range});
    const headers = {'content-type': type ?? 'application/octet-stream', 'cache-control': 'no-store', etag,
      'access-control-allow-origin': '*', 'access-control-expose-headers': 'content-range, etag', ...always};
    let [start, end, status] = [0, size, 200];
    if (range && !faults.noRange) {
      [start, end, status] = [Number(range[1]), range[2] ? Math.min(Number(range[2]) + 1, size) : size, 206];
      if (start >= size) { response.writeHead(416, {'content-range': `bytes */${size}`}).end(); return; }
      headers['content-range'] = `bytes ${start}-${end - 1}/${size}`;
    }
    if (!faults.noRange) headers['accept-ranges'] = 'bytes';
    response.writeHead(status, {...headers, 'content-length': end - start});
    if (request.method === 'HEAD') { response.end(); return; }
    for await (const chunk of found.read(start, end)) {
      if (!type && (faults.dieAfter -= chunk.length) < 0) {
        await new Promise(r => setTimeout(r, 400));   // what was sent arrives first
        response.destroy();
        return;
      }
      if (response.destroyed) return;
      if (!response.write(chunk)) await new Promise(r => { response.once('drain', r); response.once('close', r); });
      if (!type && Number.isFinite(faults.bytesPerSecond)) await new Promise(r => setTimeout(r, 1000 * chunk.length / faults.bytesPerSecond));
    }
    response.end();
  });
  server.on('connection', socket => { sockets.add(socket); socket.on('close', () => sockets.delete(socket)); });
  const listen = port => new Promise(resolve => server.listen(port, '127.0.0.1', resolve));
  await listen(0);
  const {port} = server.address();
  const stop = () => new Promise(resolve => { server.close(resolve); for (const socket of sockets) socket.destroy(); });
  return {url: `http://127.0.0.1:${port}/`, faults, requests, stop, start: () => listen(port), close: stop};
}
