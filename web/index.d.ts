// gull-web: language models in GGUF files, on this browser's GPU.

/** What a program acts upon; the message is for people. */
export type ErrorKind = 'invalid argument' | 'not found' | 'bad file' | 'unsupported' | 'out of memory' | 'device error'
  | 'input/output error' | 'cancelled' | 'not initialised' | 'internal error';

export class GullError extends Error {
  readonly kind: ErrorKind;
}

export interface Gpu {
  vendor: string;
  architecture: string;
  description: string;
  /** It runs on the CPU. */
  software: boolean;
  f16: boolean;
  subgroups: boolean;
  timestamps: boolean;
  maxBufferSize: number;
  maxStorageBufferBindingSize: number;
}

export interface Support {
  ok: boolean;
  /** Why not, one sentence each. */
  reasons: string[];
  gpu?: Gpu;
  /** Whether models can be kept in this browser (OPFS). */
  storage: boolean;
  /** Bytes that this page may still store. */
  freeBytes: number;
  /** WebAssembly can be suspended; else a larger program is loaded. */
  jspi: boolean;
}

export interface Progress {
  /** download: bytes fetched or found in storage; upload: bytes on their way to the GPU; others: steps. */
  stage: 'download' | 'upload' | 'read' | 'compile';
  done: number;
  total: number;
  bytesPerSecond?: number;
  secondsLeft?: number;
}

export interface Callbacks {
  onProgress?(progress: Progress): void;
  /** Something worth telling that stops nothing: the model cannot be kept, another tab is downloading it. */
  onNotice?(text: string): void;
  signal?: AbortSignal;
}

export interface LoadOptions extends Callbacks {
  /** Weights kept on the GPU at once: bytes, or text such as "2GiB". Default: all of them. */
  gpuBudget?: number | string;
  /** For phones, whose browsers end pages that take large buffers or keep the GPU for long: weights in buffers of at most
   *  8 MiB, and one layer a submission. Costs some speed. */
  memoryTight?: boolean;
  /** Tokens of context; default: the model's own, at most 4096. */
  context?: number;
  /** 'fast' (default): shortcuts whose effect is measured and small; 'f32': none. */
  precision?: 'fast' | 'f32';
  kvType?: 'auto' | 'f32' | 'f16' | 'q8_0' | 'q4_0';
  /** Expected SHA-256 of the file (64 hexadecimal digits); for URLs of one file. */
  sha256?: string;
  /** Keep a URL's file in this browser; default true. */
  store?: boolean;
  /** Compute once before `load` returns, so that the first answer comes at once; default true. */
  warm?: boolean;
  /** Use only WebGPU's default limits and no optional feature. */
  baselineLimits?: boolean;
  noF16?: boolean;
  noSubgroups?: boolean;
  noImmediates?: boolean;
}

/** A URL, a file of the user's, a handle of one, bytes, or the files of a split model. Of a split model at a URL, any part. */
export type Source = string | URL | Blob | FileSystemFileHandle | ArrayBuffer | ArrayBufferView | Blob[];

export interface Message {
  role: string;
  content: string;
  [more: string]: unknown;
}

export interface GenerateOptions {
  signal?: AbortSignal;
  maxTokens?: number;
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  typicalP?: number;
  repeatPenalty?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  repeatLast?: number;
  dryMultiplier?: number;
  dryBase?: number;
  dryAllowedLength?: number;
  mirostatTau?: number;
  mirostatEta?: number;
  /** 0 or absent: a fresh one each time. */
  seed?: number;
  logitBias?: Record<number, number>;
  /** Generation ends before any of these; they are never part of the output. */
  stop?: string | string[];
  ignoreEog?: boolean;
  /** How many of the likeliest tokens each piece reports. */
  logprobs?: number;
  /** GBNF. */
  grammar?: string;
  /** The output is an instance of this JSON Schema. */
  jsonSchema?: object | string;
  /** Tools for the model's chat template. */
  tools?: object[];
}

export interface Piece {
  /** Whole characters; may be empty. */
  text: string;
  /** The token; −1 for text that was held back and comes at the end. */
  id: number;
  logprobs?: {id: number; logprob: number}[];
}

export interface GenerateResult {
  text: string;
  ids: number[];
  stop: 'eog' | 'length' | 'stop' | 'context' | 'cancelled' | 'callback';
  stopString: string;
  /** Tokens in the session's cache now. */
  position: number;
  timings: {
    loadSeconds: number; promptSeconds: number; generateSeconds: number;
    promptTokens: number; cachedTokens: number; generatedTokens: number;
  };
}

/** Iterate over the pieces, await `result`, or both. Leaving the loop early stops it. */
export interface Generation extends AsyncIterable<Piece> {
  readonly result: Promise<GenerateResult>;
  /** Ends after the current token; `result` then has stop 'cancelled'. */
  stop(): void;
}

/** A conversation is a list of messages; a string or token ids are a prompt as it stands. */
export type Prompt = Message[] | string | number[];

/** One conversation: what it has seen is not computed again. */
export interface Session {
  generate(prompt: Prompt, options?: GenerateOptions): Generation;
  /** Appends ids; logits of the last of them, or of all, row by row. */
  logits(ids: ArrayLike<number>, options?: {all?: boolean}): Promise<{values: Float32Array; vocabulary: number}>;
  /** Embedding models: one vector, or with pooled false one for each token. */
  embed(text: string | number[], options?: {pooled?: boolean; normalize?: boolean}): Promise<Float32Array>;
  /** Forgets everything that was said. */
  reset(): Promise<void>;
  /** Forgets all but the first tokens; returns how many are left. */
  truncate(tokens: number): Promise<number>;
  dispose(): Promise<void>;
}

export interface ModelInfo {
  name: string;
  architecture: string;
  bytes: number;
  tensors: number;
  vocabulary: number;
  context: number;
  embedding: boolean;
  chat: boolean;
  jspi: boolean;
  device: {name: string; vendor: string; type: string; features: string[]; limits: Record<string, number>};
}

export interface Stats {
  pipelineBuilds: number; pipelineHits: number; bindGroupBuilds: number; bindGroupHits: number; bindGroupEvictions: number;
  dispatches: number; submissions: number;
  weightHits: number; weightMisses: number; weightUploads: number; weightUploadBytes: number; weightEvictions: number; weightStalls: number;
  /** Bytes on the GPU. */
  memory: {weights: number; kv: number; activations: number; parameters: number; staging: number; total: number; peak: number};
}

export interface Model {
  readonly info: ModelInfo;
  /** The session that `generate` and `embed` use. */
  readonly session: Session;
  generate(prompt: Prompt, options?: GenerateOptions): Generation;
  embed(text: string | number[], options?: {pooled?: boolean; normalize?: boolean}): Promise<Float32Array>;
  createSession(): Promise<Session>;
  tokenize(text: string, options?: {addSpecial?: boolean; parseSpecial?: boolean}): Promise<number[]>;
  detokenize(ids: ArrayLike<number>, options?: {special?: boolean}): Promise<string>;
  applyChatTemplate(messages: Message[], options?: {tools?: object[]}): Promise<number[]>;
  stats(): Promise<Stats>;
  /** Wasm memory, live WebGPU objects, and calls into JavaScript by name (where `count` was asked for at load). */
  measure(): Promise<{wasmBytes: number; handles: number; crossings: Record<string, number>}>;
  /** Opens the model anew: after the GPU was lost, say. Sessions made before are gone. */
  reload(callbacks?: Callbacks): Promise<Model>;
  /** Ends the worker and gives all of its memory back. */
  dispose(): Promise<void>;
}

export interface StoredModel {
  url: string;
  size: number;
  /** How many of them are there. */
  bytes: number;
  complete: boolean;
}

export const Gull: {
  support(): Promise<Support>;
  load(source: Source, options?: LoadOptions): Promise<Model>;
  stored(): Promise<StoredModel[]>;
  remove(url: string | URL): Promise<void>;
};
export default Gull;

/** "1.5 GiB" */
export function humanBytes(bytes: number): string;
