// GGUF files that are mostly zeros, as {size, parts: [{at, bytes}]}: a server makes them while it sends them (server.mjs), so that
// tests can have files larger than they could keep.
import fs from 'node:fs';

const ALIGNMENT = 32;
const aligned = n => Math.ceil(n / ALIGNMENT) * ALIGNMENT;
const number = (method, size) => value => {
  const bytes = Buffer.alloc(size);
  bytes[method](value);
  return bytes;
};
const u32 = number('writeUInt32LE', 4), f32 = number('writeFloatLE', 4), u64 = value => number('writeBigUInt64LE', 8)(BigInt(value));
const text = value => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const SIZES = [1, 1, 2, 2, 4, 4, 4, 1, , , 8, 8, 8];   // of metadata types; strings (8) and arrays (9) say theirs
const U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9;
const ENCODE = {[U32]: u32, [I32]: u32, [F32]: f32, [BOOL]: value => Buffer.from([value ? 1 : 0]), [STRING]: text};

const entry = (key, type, value) => Buffer.concat([text(key), u32(type), ENCODE[type](value)]);
const list = (key, type, values) => Buffer.concat([text(key), u32(ARRAY), u32(type), u64(values.length), ...values.map(ENCODE[type])]);
const tensorInfo = ({name, dims, type, offset}) => Buffer.concat([text(name), u32(dims.length), ...dims.map(u64), u32(type), u64(offset)]);

function header(entries, tensors) {
  const infos = tensors.map(tensorInfo);
  const all = Buffer.concat([Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(entries.count), ...entries.bytes, ...infos]);
  return Buffer.concat([all, Buffer.alloc(aligned(all.length) - all.length)]);
}

/** Reads a file's header: {entries, tensors, data}, `data` being where the tensors' bytes begin. */
function readHeader(bytes) {
  let at = 8;
  const next = size => (at += size) - size;
  const count = () => Number(bytes.readBigUInt64LE(next(8)));
  const string = () => { const size = count(), from = next(size); return bytes.toString('utf8', from, from + size); };
  const skip = type => {
    if (type === STRING) string();
    else if (type === ARRAY) for (let item = bytes.readUInt32LE(next(4)), left = count(); left > 0; left--) skip(item);
    else next(SIZES[type]);
  };
  const tensorCount = count(), entryCount = count(), first = at;
  for (let i = 0; i < entryCount; i++) { string(); skip(bytes.readUInt32LE(next(4))); }
  const entries = {count: entryCount, bytes: [bytes.subarray(first, at)]};
  const tensors = Array.from({length: tensorCount}, () => {
    const name = string(), dims = Array.from({length: bytes.readUInt32LE(next(4))}, count);
    return {name, dims, type: bytes.readUInt32LE(next(4)), offset: count()};
  });
  return {entries, tensors, data: aligned(at)};
}

/** The model of `file` with a gap of zeros before its tensors' bytes, which nothing reads. */
export function behind(file, gap) {
  const bytes = fs.readFileSync(file), {entries, tensors, data} = readHeader(bytes), shift = aligned(gap);
  const head = header(entries, tensors.map(t => ({...t, offset: t.offset + shift}))), tail = bytes.subarray(data);
  return {size: head.length + shift + tail.length, parts: [{at: 0, bytes: head}, {at: head.length + shift, bytes: tail}]};
}

/** Byte-level BPE without a model; the first `special` tokens are control tokens. */
export function vocabulary({pre, tokens, merges, special}) {
  const key = name => `tokenizer.ggml.${name}`;
  const bytes = [
    entry('general.architecture', STRING, 'llama'), entry(key('model'), STRING, 'gpt2'), entry(key('pre'), STRING, pre),
    list(key('tokens'), STRING, tokens), list(key('token_type'), I32, tokens.map((_, i) => (i < special ? 3 : 1))), list(key('merges'), STRING, merges),
    ...Object.entries({bos: 1, eos: 2, unknown: 0, padding: 2}).map(([name, id]) => entry(key(`${name}_token_id`), U32, id)),
    entry(key('add_bos_token'), BOOL, false), entry(key('add_space_prefix'), BOOL, false),
  ];
  const head = header({count: bytes.length, bytes}, []);
  return {size: head.length, parts: [{at: 0, bytes: head}]};
}

/** A llama of zeros in float16, with a vocabulary of its size. */
export function zeros({layers, hidden, ffn, heads, kvHeads, vocabulary}) {
  const F16 = 1, key = name => `llama.${name}`, kvSize = hidden / heads * kvHeads;
  const tokens = Array.from({length: vocabulary}, (_, i) => (i < 3 ? ['<unk>', '<s>', '</s>'][i] : i < 259 ? `<0x${(i - 3).toString(16).toUpperCase().padStart(2, '0')}>` : `\u2581w${i}`));
  const bytes = [
    entry('general.architecture', STRING, 'llama'), entry('general.name', STRING, 'zeros'),
    entry(key('block_count'), U32, layers), entry(key('context_length'), U32, 8192), entry(key('embedding_length'), U32, hidden),
    entry(key('feed_forward_length'), U32, ffn), entry(key('attention.head_count'), U32, heads), entry(key('attention.head_count_kv'), U32, kvHeads),
    entry(key('attention.layer_norm_rms_epsilon'), F32, 1e-5), entry(key('rope.dimension_count'), U32, hidden / heads), entry(key('vocab_size'), U32, vocabulary),
    entry('tokenizer.ggml.model', STRING, 'llama'), list('tokenizer.ggml.tokens', STRING, tokens),
    list('tokenizer.ggml.scores', F32, tokens.map((_, i) => -i)), list('tokenizer.ggml.token_type', U32, tokens.map((_, i) => (i === 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1))),
  ];
  const shapes = [['token_embd.weight', hidden, vocabulary], ['output_norm.weight', hidden]];
  for (let i = 0; i < layers; i++) {
    const matrices = {attn_norm: [hidden], attn_q: [hidden, hidden], attn_k: [hidden, kvSize], attn_v: [hidden, kvSize], attn_output: [hidden, hidden],
      ffn_norm: [hidden], ffn_gate: [hidden, ffn], ffn_up: [hidden, ffn], ffn_down: [ffn, hidden]};
    for (const [name, dims] of Object.entries(matrices)) shapes.push([`blk.${i}.${name}.weight`, ...dims]);
  }
  let offset = 0;
  const tensors = shapes.map(([name, ...dims]) => {
    const tensor = {name, dims, type: dims.length === 1 ? 0 : F16, offset};
    offset += aligned(dims.reduce((a, b) => a * b) * (dims.length === 1 ? 4 : 2));
    return tensor;
  });
  const head = header({count: bytes.length, bytes}, tensors);
  return {size: head.length + offset, parts: [{at: 0, bytes: head}]};
}
