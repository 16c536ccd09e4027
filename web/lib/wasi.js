// The few WASI calls that wasi-libc makes for gull: clocks, randomness, and lines on standard output and error.
const SUCCESS = 0, BADF = 8, NOSYS = 52, SPIPE = 70;

/** @param print called with each whole line that the program prints */
export function createWasi(memory, print) {
  const decoder = new TextDecoder();
  let line = '';
  const calls = {
    environ_sizes_get(count, size) { memory.setU32(count, 0); memory.setU32(size, 0); return SUCCESS; },
    environ_get: () => SUCCESS,
    args_sizes_get(count, size) { memory.setU32(count, 0); memory.setU32(size, 0); return SUCCESS; },
    args_get: () => SUCCESS,
    clock_time_get(clock, _precision, out) {
      const milliseconds = clock === 0 ? Date.now() : performance.now();
      memory.setU64(out, Math.round(milliseconds * 1e6));
      return SUCCESS;
    },
    clock_res_get(_clock, out) { memory.setU64(out, 1000); return SUCCESS; },
    random_get(p, length) {
      for (let at = 0; at < length; at += 65536)   // the most that one call gives
        crypto.getRandomValues(memory.bytes.subarray(p + at, p + Math.min(at + 65536, length)));
      return SUCCESS;
    },
    fd_write(_fd, vectors, count, out) {
      let total = 0;
      for (let i = 0; i < count; i++) {
        const p = memory.u32(vectors + 8 * i), length = memory.u32(vectors + 8 * i + 4);
        line += decoder.decode(memory.bytes.slice(p, p + length), {stream: true});
        total += length;
      }
      const lines = line.split('\n');
      line = lines.pop();
      lines.forEach(print);
      memory.setU32(out, total);
      return SUCCESS;
    },
    fd_fdstat_get(fd, p) {
      if (fd > 2) return BADF;
      memory.bytes.fill(0, p, p + 24);
      memory.bytes[p] = 2;   // a character device
      return SUCCESS;
    },
    fd_prestat_get: () => BADF,
    fd_close: () => SUCCESS,
    fd_seek: () => SPIPE,
    proc_exit(code) { throw new Error(`the program ended with code ${code}`); },
  };
  // Whatever else libc may import answers "not supported" rather than failing to link.
  return new Proxy(calls, {get: (target, name) => target[name] ?? (() => NOSYS), has: () => true});
}
