// Views of a WebAssembly memory that survive its growth, and strings in it.
const decoder = new TextDecoder(), encoder = new TextEncoder();

export class Memory {
  #memory; #malloc; #free; #view; #bytes;

  bind({memory, malloc, free}) {
    this.#memory = memory;
    this.#malloc = malloc;
    this.#free = free;
    this.#view = this.#bytes = undefined;
  }
  get buffer() { return this.#memory.buffer; }
  // Growth detaches every view, so each is made anew when the buffer is another one.
  get view() {
    if (this.#view?.buffer !== this.#memory.buffer) this.#view = new DataView(this.#memory.buffer);
    return this.#view;
  }
  get bytes() {
    if (this.#bytes?.buffer !== this.#memory.buffer) this.#bytes = new Uint8Array(this.#memory.buffer);
    return this.#bytes;
  }
  u32(p) { return this.view.getUint32(p, true); }
  u64(p) { return Number(this.view.getBigUint64(p, true)); }
  f64(p) { return this.view.getFloat64(p, true); }
  setU32(p, value) { this.view.setUint32(p, value, true); }
  setU64(p, value) { this.view.setBigUint64(p, BigInt(value), true); }

  /** Addresses arrive as signed numbers. Returns an unsigned one, or throws when memory is used up. */
  alloc(size) {
    const p = this.#malloc(Math.max(size, 1)) >>> 0;
    if (!p) throw new RangeError(`out of wasm memory: ${size} bytes`);
    return p;
  }
  free(p) { this.#free(p); }

  text(p, length) { return decoder.decode(this.bytes.slice(p >>> 0, (p >>> 0) + length)); }
  cString(p) {
    p >>>= 0;
    return this.text(p, this.bytes.indexOf(0, p) - p);
  }
  /** Copies a string in, with a NUL behind it; returns [address, bytes without the NUL]. */
  allocText(string) {
    const bytes = encoder.encode(string), p = this.alloc(bytes.length + 1);
    this.bytes.set(bytes, p);
    this.bytes[p + bytes.length] = 0;
    return [p, bytes.length];
  }
  /** Writes as much of a string as fits `capacity` bytes with its NUL, cut at a character. */
  writeText(p, capacity, string) {
    const {written} = encoder.encodeInto(string, this.bytes.subarray(p >>> 0, (p >>> 0) + capacity - 1));
    this.bytes[(p >>> 0) + written] = 0;
  }
}
