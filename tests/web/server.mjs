// A static server for the tests, with the faults that a download meets: no range support, an end in the middle, a wrong size, a 404,
// a slow line. `faults` may be changed between requests.
import http from 'node:http';
import fs from 'node:fs';
import path from 'node:path';

const TYPES = {'.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm',
  '.json': 'application/json', '.webmanifest': 'application/manifest+json', '.svg': 'image/svg+xml', '.png': 'image/png'};

/** @param folders {'/prefix/': folder}; the longest matching prefix serves. `/` is required.
 *  @returns {url, faults, requests, close()} */
export async function serve(folders) {
  const faults = {noRange: false, dieAfter: Infinity, bytesPerSecond: Infinity};
  const requests = [];
  const sockets = new Set();
  const server = http.createServer(async (request, response) => {
    response.setMaxListeners(0);
    const name = decodeURIComponent(new URL(request.url, 'http://local').pathname);
    const prefix = Object.keys(folders).filter(p => name.startsWith(p)).sort((a, b) => b.length - a.length)[0];
    let file = path.join(folders[prefix], name.slice(prefix.length));
    if (name.endsWith('/')) file = path.join(file, 'index.html');
    if (!file.startsWith(path.resolve(folders[prefix])) || !fs.existsSync(file) || fs.statSync(file).isDirectory()) {
      response.writeHead(404, {'content-type': 'text/plain', 'access-control-allow-origin': '*'}).end('not here');
      return;
    }
    const size = fs.statSync(file).size, range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
    requests.push({name, range: request.headers.range});
    const headers = {'content-type': TYPES[path.extname(file)] ?? 'application/octet-stream', 'cache-control': 'no-store', etag: `"${size}-${fs.statSync(file).mtimeMs}"`,
      'access-control-allow-origin': '*', 'access-control-expose-headers': 'content-range, etag'};
    let [start, end] = [0, size - 1], status = 200;
    if (range && !faults.noRange) {
      [start, end, status] = [Number(range[1]), range[2] ? Math.min(Number(range[2]), size - 1) : size - 1, 206];
      if (start >= size) { response.writeHead(416, {'content-range': `bytes */${size}`}).end(); return; }
      headers['content-range'] = `bytes ${start}-${end}/${size}`;
    }
    if (!faults.noRange) headers['accept-ranges'] = 'bytes';
    response.writeHead(status, {...headers, 'content-length': end - start + 1});
    if (request.method === 'HEAD') { response.end(); return; }
    const isModel = !(path.extname(file) in TYPES);
    for await (const chunk of fs.createReadStream(file, {start, end, highWaterMark: 1 << 18})) {
      if (isModel && (faults.dieAfter -= chunk.length) < 0) {
        await new Promise(r => setTimeout(r, 400));   // what was sent arrives first
        response.destroy();
        return;
      }
      if (response.destroyed) return;
      if (!response.write(chunk)) await new Promise(r => { response.once('drain', r); response.once('close', r); });
      if (isModel && Number.isFinite(faults.bytesPerSecond)) await new Promise(r => setTimeout(r, 1000 * chunk.length / faults.bytesPerSecond));
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
