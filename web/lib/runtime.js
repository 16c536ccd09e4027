// Starts a wasm module whose imports may wait for promises: by JSPI, or, where a browser lacks it, by Asyncify.
import {Memory} from './memory.js';
import {createWasi} from './wasi.js';

/** Whether this browser can suspend WebAssembly (JavaScript Promise Integration). */
export const hasJspi = () => typeof WebAssembly === 'object' && 'Suspending' in WebAssembly && 'promising' in WebAssembly;

const STACK_BYTES = 1 << 20;   // for the frames that Asyncify saves

/**
 * @param bytes the module (a response or an array buffer); one made by Asyncify when `jspi` is false
 * @param imports ({memory}) => {env: functions, suspending: names of those that return promises, bind?(instance)}
 * @returns {memory, exports, call(name, ...args)}: `call` runs an export that may suspend, one after the other:
 *   two suspended stacks would share one stack pointer
 */
export async function start({bytes, jspi = hasJspi(), imports, print = console.log}) {
  const memory = new Memory();
  const {env, suspending, bind} = imports({memory});
  const wrapped = {...env};
  const asyncify = {};
  for (const name of suspending) wrapped[name] = jspi ? new WebAssembly.Suspending(env[name]) : unwinding(asyncify, env[name]);
  const module = await (bytes instanceof Response ? WebAssembly.compileStreaming(bytes) : WebAssembly.compile(bytes));
  const missing = WebAssembly.Module.imports(module).filter(i => i.module === 'env' && !(i.name in wrapped));
  if (missing.length) throw new Error(`the module imports ${missing.map(i => i.name).join(', ')}, which the loader lacks`);
  const instance = await WebAssembly.instantiate(module, {env: wrapped, wasi_snapshot_preview1: createWasi(memory, print)});
  const {exports} = instance;
  memory.bind(exports);
  bind?.(instance);
  exports._initialize();
  if (!jspi) prepare(asyncify, memory, exports);
  let last = Promise.resolve();
  const call = (name, ...args) => {
    const run = jspi ? () => WebAssembly.promising(exports[name])(...args) : () => rewinding(asyncify, exports, name, args);
    const result = last.then(run);
    last = result.catch(() => {});
    return result;
  };
  return {memory, exports, call};
}

// Asyncify: an import that must wait starts to unwind the wasm stack and leaves its promise behind; when that is
// settled the export is entered again, and the import, called once more, returns the value.
function unwinding(asyncify, fn) {
  return (...args) => {
    if (asyncify.exports.asyncify_get_state() === 2) {
      asyncify.exports.asyncify_stop_rewind();
      return asyncify.value;
    }
    const result = fn(...args);
    if (!(result instanceof Promise)) return result;
    asyncify.promise = result;
    asyncify.exports.asyncify_start_unwind(asyncify.data);
    return 0;
  };
}

function prepare(asyncify, memory, exports) {
  asyncify.exports = exports;
  asyncify.data = memory.alloc(STACK_BYTES);
  asyncify.reset = () => {
    memory.setU32(asyncify.data, asyncify.data + 8);
    memory.setU32(asyncify.data + 4, asyncify.data + STACK_BYTES);
  };
}

async function rewinding(asyncify, exports, name, args) {
  asyncify.reset();
  let result = exports[name](...args);
  while (exports.asyncify_get_state() === 1) {
    exports.asyncify_stop_unwind();
    asyncify.value = await asyncify.promise;
    exports.asyncify_start_rewind(asyncify.data);
    result = exports[name](...args);
  }
  return result;
}
