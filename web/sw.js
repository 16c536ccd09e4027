// Keeps the page's own files, so that it works offline after the first visit. Models are not its business: they lie in OPFS.
const CACHE = 'gull-page';

self.addEventListener('install', event => event.waitUntil((async () => {
  const files = await (await fetch('files.json', {cache: 'no-cache'})).json();
  await (await caches.open(CACHE)).addAll(['./', 'files.json', ...files]);
  await self.skipWaiting();
})()));

self.addEventListener('activate', event => event.waitUntil(self.clients.claim()));

// The network first, so that a new version is seen at once; what was kept when there is none.
self.addEventListener('fetch', event => {
  const {request} = event, url = new URL(request.url);
  const own = url.origin === location.origin && request.method === 'GET' && !request.headers.has('range');
  if (!own || /\.gguf$/i.test(url.pathname)) return;
  event.respondWith((async () => {
    const cache = await caches.open(CACHE);
    try {
      const response = await fetch(request);
      if (response.ok) cache.put(request, response.clone()).catch(() => {});
      return response;
    } catch (error) {
      const kept = await cache.match(request, {ignoreSearch: true});
      if (kept) return kept;
      throw error;
    }
  })());
});
