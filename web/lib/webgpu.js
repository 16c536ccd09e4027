// webgpu.h on navigator.gpu, for compute: what a wasm32 module that calls the C functions links against.
// Offsets and numbers come from webgpu_layout.js, which web/scripts/layout.py derives from the header.
//
// Objects live in a table; C sees their 32-bit handles. Where JavaScript throws (a range that cannot be mapped, a feature that
// was not asked for), the C function reports an error to the device's error scope and returns null.
import {S, E, N, F} from './webgpu_layout.js';

const U32_UNDEFINED = 0xffffffff, U64_UNDEFINED = 0xffffffffffffffffn;
const plain = name => name.toLowerCase().replaceAll('-', '').replaceAll('_', '');
const reverse = table => Object.fromEntries(Object.entries(table).map(([name, value]) => [value, name]));
const FEATURE_NAMES = reverse(E.WGPUFeatureName), LANGUAGE_NAMES = reverse(E.WGPUWGSLLanguageFeatureName);
const LIMITS = Object.keys(S.WGPULimits).filter(name => name !== '$size' && name !== 'nextInChain');
const WIDE = new Set(N);
const BUFFER_TYPES = {
  [E.WGPUBufferBindingType.Undefined]: undefined, [E.WGPUBufferBindingType.Uniform]: 'uniform',
  [E.WGPUBufferBindingType.Storage]: 'storage', [E.WGPUBufferBindingType.ReadOnlyStorage]: 'read-only-storage',
};
const FILTERS = {
  [E.WGPUErrorFilter.Validation]: 'validation', [E.WGPUErrorFilter.OutOfMemory]: 'out-of-memory',
  [E.WGPUErrorFilter.Internal]: 'internal',
};
const LOST_REASONS = {unknown: E.WGPUDeviceLostReason.Unknown, destroyed: E.WGPUDeviceLostReason.Destroyed};

function errorType(error) {
  const name = error.constructor.name;
  if (name === 'GPUValidationError') return E.WGPUErrorType.Validation;
  if (name === 'GPUOutOfMemoryError') return E.WGPUErrorType.OutOfMemory;
  return name === 'GPUInternalError' ? E.WGPUErrorType.Internal : E.WGPUErrorType.Unknown;
}

/** Objects by handle, with their reference counts; handle 0 is null. */
class Table {
  objects = [null];
  #records = [null];
  #spare = [];

  /** @param record anything that belongs to the object (its device, its mapped ranges) */
  add(object, record = {}) {
    const handle = this.#spare.pop() ?? this.objects.length;
    this.objects[handle] = object;
    this.#records[handle] = {...record, count: 1};
    return handle;
  }
  record(handle) { return this.#records[handle]; }
  addRef(handle) { this.#records[handle].count++; }
  release(handle) {
    if (--this.#records[handle].count > 0) return;
    this.objects[handle] = this.#records[handle] = undefined;
    this.#spare.push(handle);
  }
  get live() { return this.objects.length - 1 - this.#spare.length; }
}

/** What C waits for: promises whose callbacks run inside WaitAny, ProcessEvents or suspend, or at once where it allows that. */
class Futures {
  #all = new Map();
  #next = 1n;
  #wakers = [];
  fired = 0;

  /** @param fire (error, value) => calls the C callback; it must not throw
   *  @param background it may never complete, so nobody waits for it (the loss of a device) */
  add(promise, mode, fire, background = false) {
    const id = this.#next++, future = {mode, background, done: false, fire: undefined};
    this.#all.set(id, future);
    const settle = run => {
      future.done = true;
      future.fire = run;
      if (mode === E.WGPUCallbackMode.AllowSpontaneous) this.#run(id, future);
      for (const wake of this.#wakers.splice(0)) wake();
    };
    promise.then(value => settle(() => fire(undefined, value)), error => settle(() => fire(error ?? new Error('unknown error'))));
    return id;
  }
  #run(id, future) {
    this.#all.delete(id);
    this.fired++;
    future.fire();
  }
  /** Runs a future's callback when it is complete; true when it is, or was before. */
  finish(id) {
    const future = this.#all.get(id);
    if (future?.done) this.#run(id, future);
    return !future || future.done;
  }
  /** Runs the callbacks of all completed futures that events may run. */
  process() {
    for (const [id, future] of [...this.#all])
      if (future.done && future.mode !== E.WGPUCallbackMode.WaitAnyOnly) this.#run(id, future);
  }
  /** Resolves when any future completes, or soon where there is none to wait for. */
  next() {
    return new Promise(resolve => {
      if (this.waiting) this.#wakers.push(resolve);
      else setTimeout(resolve, 0);
    });
  }
  get waiting() {
    for (const future of this.#all.values()) if (!future.done && !future.background) return true;
    return false;
  }
}

/** @param gpu navigator.gpu  @param asHardware a software adapter is reported as a GPU, so that tests see what GPUs get
 *  @returns {env, suspending, bind(instance), live(), counts, devices()} for `start` of runtime.js */
export function createWebGPU(memory, gpu, {asHardware = false} = {}) {
  const table = new Table(), futures = new Futures();
  let functions;   // the module's function table
  const get = handle => table.objects[handle];
  const deviceOf = handle => table.record(handle).device;
  const invoke = (pointer, ...args) => functions.get(pointer)(...args);

  // ---- reading C structures
  const {u32, u64, f64} = {u32: p => memory.u32(p), u64: p => memory.u64(p), f64: p => memory.f64(p)};
  function string(p) {   // a WGPUStringView; undefined where it is null
    const data = u32(p + S.WGPUStringView.data), length = u32(p + S.WGPUStringView.length);
    if (!data) return length === U32_UNDEFINED ? undefined : '';
    return length === U32_UNDEFINED ? memory.cString(data) : memory.text(data, length);
  }
  const labelled = (p, offset) => (p ? {label: string(p + offset) ?? ''} : {});
  const list = (count, first, size, read) => Array.from({length: count}, (_, i) => read(first + i * size));
  const orWhole = (p) => (memory.view.getBigUint64(p, true) === U64_UNDEFINED ? undefined : u64(p));
  // Every callback info starts alike; only the uncaptured error's has no mode.
  const callbackInfo = p => ({
    mode: u32(p + S.WGPUBufferMapCallbackInfo.mode), callback: u32(p + S.WGPUBufferMapCallbackInfo.callback),
    user1: u32(p + S.WGPUBufferMapCallbackInfo.userdata1), user2: u32(p + S.WGPUBufferMapCallbackInfo.userdata2),
  });

  // ---- writing C structures
  function setString(p, text) {
    const [data, length] = memory.allocText(text);
    memory.setU32(p + S.WGPUStringView.data, data);
    memory.setU32(p + S.WGPUStringView.length, length);
  }
  /** Calls `use` with the address of a WGPUStringView that lives as long as the call. */
  function withString(text, use) {
    const p = memory.alloc(S.WGPUStringView.$size);
    setString(p, text ?? '');
    try { use(p); } finally { memory.free(u32(p)); memory.free(p); }
  }
  function withHandle(handle, use) {
    const p = memory.alloc(4);
    memory.setU32(p, handle);
    try { use(p); } finally { memory.free(p); }
  }
  function writeLimits(p, limits) {
    for (const name of LIMITS) {
      const value = limits[name];
      if (WIDE.has(name)) memory.setU64(p + S.WGPULimits[name], value ?? U64_UNDEFINED);
      else memory.setU32(p + S.WGPULimits[name], value ?? U32_UNDEFINED);
    }
  }
  function readLimits(p, known) {
    const limits = {};
    for (const name of LIMITS) {
      if (!(name in known)) continue;
      const at = p + S.WGPULimits[name];
      const value = WIDE.has(name) ? orWhole(at) : u32(at);
      if (value !== undefined && (WIDE.has(name) || value !== U32_UNDEFINED)) limits[name] = value;
    }
    return limits;
  }
  function writeAdapterInfo(p, real) {
    const {subgroupMinSize, subgroupMaxSize} = real, info = asHardware ? {vendor: 'hardware', subgroupMinSize, subgroupMaxSize} : real;
    setString(p + S.WGPUAdapterInfo.vendor, info.vendor ?? '');
    setString(p + S.WGPUAdapterInfo.architecture, info.architecture ?? '');
    setString(p + S.WGPUAdapterInfo.device, info.device ?? '');
    setString(p + S.WGPUAdapterInfo.description, info.description ?? '');
    memory.setU32(p + S.WGPUAdapterInfo.backendType, E.WGPUBackendType.WebGPU);
    memory.setU32(p + S.WGPUAdapterInfo.adapterType, info.isFallbackAdapter ? E.WGPUAdapterType.CPU : E.WGPUAdapterType.Unknown);
    memory.setU32(p + S.WGPUAdapterInfo.vendorID, 0);
    memory.setU32(p + S.WGPUAdapterInfo.deviceID, 0);
    memory.setU32(p + S.WGPUAdapterInfo.subgroupMinSize, info.subgroupMinSize ?? 4);
    memory.setU32(p + S.WGPUAdapterInfo.subgroupMaxSize, info.subgroupMaxSize ?? 128);
    return E.WGPUStatus.Success;
  }
  /** Writes {count, pointer} of 32-bit numbers; `free` gives them back. */
  function writeNumbers(p, countOffset, listOffset, numbers) {
    const data = memory.alloc(4 * numbers.length);
    numbers.forEach((number, i) => memory.setU32(data + 4 * i, number));
    memory.setU32(p + countOffset, numbers.length);
    memory.setU32(p + listOffset, data);
  }
  const has = (set, names, number) => {
    const wanted = names[number] && plain(names[number]);
    return wanted !== undefined && [...set].some(name => plain(name) === wanted);
  };
  const numbersOf = (set, values) => Object.entries(values).filter(([name]) => [...set].some(f => plain(f) === plain(name))).map(([, v]) => v);
  const featureName = (set, number) => [...set].find(name => plain(name) === plain(FEATURE_NAMES[number] ?? ' '));

  // ---- errors
  /** Reports what JavaScript threw as WebGPU reports errors: to the innermost scope that wants it, else as uncaptured. */
  function report(device, error, type = E.WGPUErrorType.Validation) {
    const filter = type === E.WGPUErrorType.OutOfMemory ? 'out-of-memory' : 'validation';
    const scope = device?.scopes.findLast(s => s.filter === filter);
    if (scope) scope.error ??= {type, message: error.message};
    else device?.uncaptured(type, error.message);
  }
  function guarded(device, make) {
    try { return make(); } catch (error) {
      report(device, error, error instanceof RangeError ? E.WGPUErrorType.OutOfMemory : E.WGPUErrorType.Validation);
      return 0;
    }
  }
  const create = (device, make, record) => guarded(device, () => table.add(make(), {device, ...record}));

  /** Adds the shader compiler's own words where a browser's error says only that a module is invalid. */
  async function explain(error, modules) {
    let {message} = error;
    for (const module of modules) {
      const info = await module.getCompilationInfo().catch(() => ({messages: []}));
      for (const m of info.messages)
        if (m.type === 'error' && !message.includes(m.message)) message += `\n${m.lineNum}:${m.linePos} ${m.message}`;
    }
    return {type: error.type ?? errorType(error), message};
  }

  function openDevice(object, lostInfo, uncapturedInfo) {
    const device = {object, scopes: [], uncaptured: () => {}, handle: 0};
    device.handle = table.add(object, {device});
    const pass = (info, kind, message) => withString(message, m => withHandle(device.handle, h => invoke(info.callback, h, kind, m, info.user1, info.user2)));
    if (uncapturedInfo.callback) {
      device.uncaptured = (type, message) => pass(uncapturedInfo, type, message);
      object.addEventListener('uncapturederror', event => {
        event.preventDefault();
        device.uncaptured(errorType(event.error), event.error.message);
      });
    }
    device.lost = futures.add(object.lost, lostInfo.callback ? lostInfo.mode : E.WGPUCallbackMode.AllowSpontaneous, (_, info) => {
      if (lostInfo.callback) pass(lostInfo, LOST_REASONS[info.reason] ?? E.WGPUDeviceLostReason.Unknown, info.message || 'the device was lost');
    }, true);
    return device;
  }

  function pipelineDescriptor(p) {
    const compute = p + S.WGPUComputePipelineDescriptor.compute;
    const constants = {};
    list(u32(compute + S.WGPUComputeState.constantCount), u32(compute + S.WGPUComputeState.constants), S.WGPUConstantEntry.$size, entry => {
      constants[string(entry + S.WGPUConstantEntry.key)] = f64(entry + S.WGPUConstantEntry.value);
    });
    const layout = u32(p + S.WGPUComputePipelineDescriptor.layout);
    return {
      ...labelled(p, S.WGPUComputePipelineDescriptor.label), layout: layout ? get(layout) : 'auto',
      compute: {module: get(u32(compute + S.WGPUComputeState.module)), entryPoint: string(compute + S.WGPUComputeState.entryPoint), constants},
    };
  }

  const instance = {
    wgpuCreateInstance: () => table.add({}),
    wgpuGetInstanceFeatures(p) {
      writeNumbers(p, S.WGPUSupportedInstanceFeatures.featureCount, S.WGPUSupportedInstanceFeatures.features, [E.WGPUInstanceFeatureName.TimedWaitAny]);
    },
    wgpuHasInstanceFeature: feature => Number(feature === E.WGPUInstanceFeatureName.TimedWaitAny),
    wgpuSupportedInstanceFeaturesFreeMembers: p => memory.free(u32(p + S.WGPUSupportedInstanceFeatures.features)),
    wgpuInstanceHasWGSLLanguageFeature: (_, feature) => Number(has(gpu?.wgslLanguageFeatures ?? [], LANGUAGE_NAMES, feature)),
    wgpuInstanceRequestAdapter(_, options, info) {
      const {mode, callback, user1, user2} = callbackInfo(info), wanted = {};
      if (options) {
        const power = u32(options + S.WGPURequestAdapterOptions.powerPreference);
        if (power === E.WGPUPowerPreference.LowPower) wanted.powerPreference = 'low-power';
        if (power === E.WGPUPowerPreference.HighPerformance) wanted.powerPreference = 'high-performance';
        if (u32(options + S.WGPURequestAdapterOptions.forceFallbackAdapter)) wanted.forceFallbackAdapter = true;
      }
      const asked = gpu ? gpu.requestAdapter(wanted) : Promise.resolve(null);
      return futures.add(asked, mode, (error, adapter) => {
        const status = adapter ? E.WGPURequestAdapterStatus.Success : error ? E.WGPURequestAdapterStatus.Error : E.WGPURequestAdapterStatus.Unavailable;
        const message = adapter ? '' : error?.message ?? 'this browser offers no GPU';
        withString(message, m => invoke(callback, status, adapter ? table.add(adapter) : 0, m, user1, user2));
      });
    },
    wgpuInstanceProcessEvents: () => futures.process(),
    async wgpuInstanceWaitAny(_, count, infos, timeout) {
      const entries = list(count, infos >>> 0, S.WGPUFutureWaitInfo.$size, p => ({p, id: memory.view.getBigUint64(p + S.WGPUFutureWaitInfo.future, true)}));
      const deadline = performance.now() + Number(BigInt.asUintN(64, timeout)) / 1e6;
      for (;;) {
        let any = false;
        for (const {p, id} of entries) {
          const done = futures.finish(id);
          memory.setU32(p + S.WGPUFutureWaitInfo.completed, Number(done));
          any ||= done;
        }
        if (any) return E.WGPUWaitStatus.Success;
        const left = deadline - performance.now();
        if (left <= 0) return E.WGPUWaitStatus.TimedOut;
        await Promise.race([futures.next(), new Promise(resolve => left < 1e9 && setTimeout(resolve, left))]);
      }
    },
  };

  const adapter = {
    wgpuAdapterGetInfo: (handle, p) => writeAdapterInfo(p, get(handle).info ?? {}),
    wgpuAdapterInfoFreeMembers(p) {
      for (const offset of [S.WGPUAdapterInfo.vendor, S.WGPUAdapterInfo.architecture, S.WGPUAdapterInfo.device, S.WGPUAdapterInfo.description])
        memory.free(u32(p + offset + S.WGPUStringView.data));
    },
    wgpuAdapterGetLimits(handle, p) { writeLimits(p, get(handle).limits); return E.WGPUStatus.Success; },
    wgpuAdapterHasFeature: (handle, feature) => Number(has(get(handle).features, FEATURE_NAMES, feature)),
    wgpuAdapterGetFeatures(handle, p) {
      writeNumbers(p, S.WGPUSupportedFeatures.featureCount, S.WGPUSupportedFeatures.features, numbersOf(get(handle).features, E.WGPUFeatureName));
    },
    wgpuSupportedFeaturesFreeMembers: p => memory.free(u32(p + S.WGPUSupportedFeatures.features)),
    wgpuAdapterRequestDevice(handle, p, info) {
      const {mode, callback, user1, user2} = callbackInfo(info), source = get(handle), wanted = {};
      const none = {mode: 0, callback: 0, user1: 0, user2: 0};
      let lostInfo = none, uncapturedInfo = none;
      if (p) {
        Object.assign(wanted, labelled(p, S.WGPUDeviceDescriptor.label));
        wanted.requiredFeatures = list(u32(p + S.WGPUDeviceDescriptor.requiredFeatureCount), u32(p + S.WGPUDeviceDescriptor.requiredFeatures), 4,
          at => featureName(source.features, u32(at)) ?? `feature ${u32(at)}`);
        const limits = u32(p + S.WGPUDeviceDescriptor.requiredLimits);
        if (limits) wanted.requiredLimits = readLimits(limits, source.limits);
        lostInfo = callbackInfo(p + S.WGPUDeviceDescriptor.deviceLostCallbackInfo);
        const u = p + S.WGPUDeviceDescriptor.uncapturedErrorCallbackInfo;
        uncapturedInfo = {callback: u32(u + S.WGPUUncapturedErrorCallbackInfo.callback),
          user1: u32(u + S.WGPUUncapturedErrorCallbackInfo.userdata1), user2: u32(u + S.WGPUUncapturedErrorCallbackInfo.userdata2)};
      }
      return futures.add(source.requestDevice(wanted), mode, (error, object) => {
        const opened = object ? openDevice(object, lostInfo, uncapturedInfo).handle : 0;
        withString(error?.message, m => invoke(callback, object ? E.WGPURequestDeviceStatus.Success : E.WGPURequestDeviceStatus.Error, opened, m, user1, user2));
      });
    },
  };

  const device = {
    wgpuDeviceGetQueue: handle => table.add(get(handle).queue, {device: deviceOf(handle)}),
    wgpuDeviceGetLimits(handle, p) { writeLimits(p, get(handle).limits); return E.WGPUStatus.Success; },
    wgpuDeviceHasFeature: (handle, feature) => Number(has(get(handle).features, FEATURE_NAMES, feature)),
    wgpuDeviceGetFeatures(handle, p) {
      writeNumbers(p, S.WGPUSupportedFeatures.featureCount, S.WGPUSupportedFeatures.features, numbersOf(get(handle).features, E.WGPUFeatureName));
    },
    wgpuDeviceGetAdapterInfo: (handle, p) => writeAdapterInfo(p, get(handle).adapterInfo ?? {}),
    wgpuDeviceGetLostFuture: handle => deviceOf(handle).lost,
    wgpuDeviceDestroy: handle => get(handle).destroy(),
    wgpuDevicePushErrorScope(handle, filter) {
      deviceOf(handle).scopes.push({filter: FILTERS[filter], error: undefined, modules: []});
      get(handle).pushErrorScope(FILTERS[filter]);
    },
    wgpuDevicePopErrorScope(handle, info) {
      const {mode, callback, user1, user2} = callbackInfo(info), scope = deviceOf(handle).scopes.pop();
      const pop = async () => {
        if (!scope) throw new Error('there is no error scope to pop');
        const error = await get(handle).popErrorScope();
        const first = scope.error ?? error;
        return first && explain(first, scope.modules);
      };
      return futures.add(pop(), mode, (failed, error) => {
        const status = failed ? E.WGPUPopErrorScopeStatus.Error : E.WGPUPopErrorScopeStatus.Success;
        withString((failed ?? error)?.message, m => invoke(callback, status, error?.type ?? E.WGPUErrorType.NoError, m, user1, user2));
      });
    },
    wgpuDeviceCreateBuffer: (handle, p) => create(deviceOf(handle), () => get(handle).createBuffer({
      ...labelled(p, S.WGPUBufferDescriptor.label), usage: u64(p + S.WGPUBufferDescriptor.usage), size: u64(p + S.WGPUBufferDescriptor.size),
      mappedAtCreation: !!u32(p + S.WGPUBufferDescriptor.mappedAtCreation),
    }), {ranges: []}),
    wgpuDeviceCreateShaderModule(handle, p) {
      const chain = u32(p + S.WGPUShaderModuleDescriptor.nextInChain), owner = deviceOf(handle);
      return create(owner, () => {
        if (!chain || u32(chain + S.WGPUChainedStruct.sType) !== E.WGPUSType.ShaderSourceWGSL) throw new TypeError('a browser takes shaders in WGSL only');
        const module = get(handle).createShaderModule({...labelled(p, S.WGPUShaderModuleDescriptor.label), code: string(chain + S.WGPUShaderSourceWGSL.code)});
        owner.scopes.at(-1)?.modules.push(module);
        return module;
      });
    },
    wgpuDeviceCreateBindGroupLayout: (handle, p) => create(deviceOf(handle), () => get(handle).createBindGroupLayout({
      ...labelled(p, S.WGPUBindGroupLayoutDescriptor.label),
      entries: list(u32(p + S.WGPUBindGroupLayoutDescriptor.entryCount), u32(p + S.WGPUBindGroupLayoutDescriptor.entries), S.WGPUBindGroupLayoutEntry.$size, at => {
        const buffer = at + S.WGPUBindGroupLayoutEntry.buffer;
        return {
          binding: u32(at + S.WGPUBindGroupLayoutEntry.binding), visibility: u64(at + S.WGPUBindGroupLayoutEntry.visibility),
          buffer: {
            type: BUFFER_TYPES[u32(buffer + S.WGPUBufferBindingLayout.type)],
            hasDynamicOffset: !!u32(buffer + S.WGPUBufferBindingLayout.hasDynamicOffset),
            minBindingSize: u64(buffer + S.WGPUBufferBindingLayout.minBindingSize),
          },
        };
      }),
    })),
    wgpuDeviceCreatePipelineLayout(handle, p) {
      const immediateSize = u32(p + S.WGPUPipelineLayoutDescriptor.immediateSize);
      return create(deviceOf(handle), () => get(handle).createPipelineLayout({
        ...labelled(p, S.WGPUPipelineLayoutDescriptor.label), ...(immediateSize && {immediateSize}),
        bindGroupLayouts: list(u32(p + S.WGPUPipelineLayoutDescriptor.bindGroupLayoutCount), u32(p + S.WGPUPipelineLayoutDescriptor.bindGroupLayouts), 4, at => get(u32(at))),
      }));
    },
    wgpuDeviceCreateComputePipeline: (handle, p) => create(deviceOf(handle), () => get(handle).createComputePipeline(pipelineDescriptor(p))),
    wgpuDeviceCreateComputePipelineAsync(handle, p, info) {
      const {mode, callback, user1, user2} = callbackInfo(info), owner = deviceOf(handle);
      return futures.add((async () => get(handle).createComputePipelineAsync(pipelineDescriptor(p)))(), mode, (error, pipeline) => {
        const status = pipeline ? E.WGPUCreatePipelineAsyncStatus.Success
          : error.reason === 'internal' ? E.WGPUCreatePipelineAsyncStatus.InternalError : E.WGPUCreatePipelineAsyncStatus.ValidationError;
        withString(error?.message, m => invoke(callback, status, pipeline ? table.add(pipeline, {device: owner}) : 0, m, user1, user2));
      });
    },
    wgpuDeviceCreateBindGroup: (handle, p) => create(deviceOf(handle), () => get(handle).createBindGroup({
      ...labelled(p, S.WGPUBindGroupDescriptor.label), layout: get(u32(p + S.WGPUBindGroupDescriptor.layout)),
      entries: list(u32(p + S.WGPUBindGroupDescriptor.entryCount), u32(p + S.WGPUBindGroupDescriptor.entries), S.WGPUBindGroupEntry.$size, at => ({
        binding: u32(at + S.WGPUBindGroupEntry.binding),
        resource: {buffer: get(u32(at + S.WGPUBindGroupEntry.buffer)), offset: u64(at + S.WGPUBindGroupEntry.offset), size: orWhole(at + S.WGPUBindGroupEntry.size)},
      })),
    })),
    wgpuDeviceCreateCommandEncoder: (handle, p) => create(deviceOf(handle), () => get(handle).createCommandEncoder(labelled(p, S.WGPUCommandEncoderDescriptor.label))),
    wgpuDeviceCreateQuerySet: (handle, p) => create(deviceOf(handle), () => get(handle).createQuerySet({
      ...labelled(p, S.WGPUQuerySetDescriptor.label), count: u32(p + S.WGPUQuerySetDescriptor.count),
      type: u32(p + S.WGPUQuerySetDescriptor.type) === E.WGPUQueryType.Timestamp ? 'timestamp' : 'occlusion',
    })),
  };

  /** The range as a copy in wasm memory; written back at unmap where C may have changed it. */
  function mappedRange(handle, offset, size, writable) {
    const {ranges, device: owner} = table.record(handle);
    const same = ranges.find(r => r.offset === offset && r.size === size);
    if (same) {
      same.writable ||= writable;
      return same.p;
    }
    return guarded(owner, () => {
      const bytes = new Uint8Array(get(handle).getMappedRange(offset >>> 0, size >>> 0 === U32_UNDEFINED ? undefined : size >>> 0));
      const p = memory.alloc(bytes.length);
      memory.bytes.set(bytes, p);
      ranges.push({offset, size, p, bytes, writable});
      return p;
    });
  }
  const freeRanges = record => { for (const range of record.ranges.splice(0)) memory.free(range.p); };

  const buffer = {
    wgpuBufferMapAsync(handle, mapMode, offset, size, info) {
      const {mode, callback, user1, user2} = callbackInfo(info);
      const owner = deviceOf(handle), target = get(handle);
      const mapped = (async () => {
        try { await target.mapAsync(Number(mapMode), offset >>> 0, size >>> 0 === U32_UNDEFINED ? undefined : size >>> 0); } catch (error) {
          // Where the device was lost, that is the reason to be told first.
          await Promise.race([owner.object.lost, new Promise(resolve => setTimeout(resolve, 20))]);
          throw error;
        }
      })();
      return futures.add(mapped, mode, error => {
        const status = !error ? E.WGPUMapAsyncStatus.Success : error.name === 'AbortError' ? E.WGPUMapAsyncStatus.Aborted : E.WGPUMapAsyncStatus.Error;
        withString(error?.message, m => invoke(callback, status, m, user1, user2));
      });
    },
    wgpuBufferGetConstMappedRange: (handle, offset, size) => mappedRange(handle, offset, size, false),
    wgpuBufferGetMappedRange: (handle, offset, size) => mappedRange(handle, offset, size, true),
    wgpuBufferUnmap(handle) {
      const record = table.record(handle);
      for (const {p, bytes, writable} of record.ranges) if (writable && bytes.length) bytes.set(memory.bytes.subarray(p, p + bytes.length));
      freeRanges(record);
      get(handle).unmap();
    },
    wgpuBufferGetMapState: handle => E.WGPUBufferMapState[{unmapped: 'Unmapped', pending: 'Pending', mapped: 'Mapped'}[get(handle).mapState]],
    wgpuBufferGetSize: handle => BigInt(get(handle).size),
    wgpuBufferGetUsage: handle => BigInt(get(handle).usage),
    wgpuBufferDestroy(handle) { freeRanges(table.record(handle)); get(handle).destroy(); },
    wgpuBufferRelease(handle) {
      const record = table.record(handle);
      if (record.count === 1) freeRanges(record);
      table.release(handle);
    },
    wgpuShaderModuleGetCompilationInfo(handle, info) {
      const {mode, callback, user1, user2} = callbackInfo(info), T = S.WGPUCompilationMessage;
      return futures.add(get(handle).getCompilationInfo(), mode, (_, result) => {
        const messages = result?.messages ?? [], p = memory.alloc(S.WGPUCompilationInfo.$size), all = memory.alloc(messages.length * T.$size);
        memory.bytes.fill(0, p, p + S.WGPUCompilationInfo.$size);
        memory.bytes.fill(0, all, all + messages.length * T.$size);
        messages.forEach((m, i) => {
          const at = all + i * T.$size;
          setString(at + S.WGPUCompilationMessage.message, m.message);
          memory.setU32(at + S.WGPUCompilationMessage.type, {error: E.WGPUCompilationMessageType.Error, warning: E.WGPUCompilationMessageType.Warning}[m.type] ?? E.WGPUCompilationMessageType.Info);
          memory.setU64(at + S.WGPUCompilationMessage.lineNum, m.lineNum);
          memory.setU64(at + S.WGPUCompilationMessage.linePos, m.linePos);
          memory.setU64(at + S.WGPUCompilationMessage.offset, m.offset);
          memory.setU64(at + S.WGPUCompilationMessage.length, m.length);
        });
        memory.setU32(p + S.WGPUCompilationInfo.messageCount, messages.length);
        memory.setU32(p + S.WGPUCompilationInfo.messages, all);
        invoke(callback, E.WGPUCompilationInfoRequestStatus.Success, p, user1, user2);
        messages.forEach((_m, i) => memory.free(u32(all + i * T.$size + S.WGPUCompilationMessage.message)));
        memory.free(all);
        memory.free(p);
      });
    },
    wgpuComputePipelineGetBindGroupLayout: (handle, index) => create(deviceOf(handle), () => get(handle).getBindGroupLayout(index)),
    wgpuQuerySetGetCount: handle => get(handle).count,
    wgpuQuerySetDestroy: handle => get(handle).destroy(),
  };

  const queue = {
    wgpuQueueWriteBuffer(handle, target, offset, data, size) {
      guarded(deviceOf(handle), () => get(handle).writeBuffer(get(target), Number(offset), memory.buffer, data >>> 0, size >>> 0));
    },
    wgpuQueueSubmit(handle, count, commands) {
      guarded(deviceOf(handle), () => get(handle).submit(list(count, commands >>> 0, 4, at => get(u32(at)))));
    },
    wgpuQueueOnSubmittedWorkDone(handle, info) {
      const {mode, callback, user1, user2} = callbackInfo(info);
      return futures.add(get(handle).onSubmittedWorkDone(), mode, error =>
        withString(error?.message, m => invoke(callback, error ? E.WGPUQueueWorkDoneStatus.Error : E.WGPUQueueWorkDoneStatus.Success, m, user1, user2)));
    },
  };

  const encoder = {
    wgpuCommandEncoderBeginComputePass(handle, p) {
      const timestamps = p && u32(p + S.WGPUComputePassDescriptor.timestampWrites);
      const index = at => (u32(at) === U32_UNDEFINED ? undefined : u32(at));
      return create(deviceOf(handle), () => get(handle).beginComputePass({
        ...labelled(p, S.WGPUComputePassDescriptor.label),
        ...(timestamps && {timestampWrites: {
          querySet: get(u32(timestamps + S.WGPUPassTimestampWrites.querySet)),
          beginningOfPassWriteIndex: index(timestamps + S.WGPUPassTimestampWrites.beginningOfPassWriteIndex),
          endOfPassWriteIndex: index(timestamps + S.WGPUPassTimestampWrites.endOfPassWriteIndex),
        }}),
      }));
    },
    wgpuCommandEncoderCopyBufferToBuffer(handle, from, fromOffset, to, toOffset, size) {
      guarded(deviceOf(handle), () => get(handle).copyBufferToBuffer(get(from), Number(fromOffset), get(to), Number(toOffset), Number(size)));
    },
    wgpuCommandEncoderClearBuffer(handle, target, offset, size) {
      guarded(deviceOf(handle), () => get(handle).clearBuffer(get(target), Number(offset), BigInt.asUintN(64, size) === U64_UNDEFINED ? undefined : Number(size)));
    },
    wgpuCommandEncoderResolveQuerySet(handle, queries, first, count, target, offset) {
      guarded(deviceOf(handle), () => get(handle).resolveQuerySet(get(queries), first, count, get(target), Number(offset)));
    },
    wgpuCommandEncoderFinish: (handle, p) => create(deviceOf(handle), () => get(handle).finish(labelled(p, S.WGPUCommandBufferDescriptor.label))),
  };

  const pass = {
    wgpuComputePassEncoderSetPipeline: (handle, pipeline) => get(handle).setPipeline(get(pipeline)),
    wgpuComputePassEncoderSetBindGroup(handle, index, group, count, offsets) {
      if (count) get(handle).setBindGroup(index, get(group), new Uint32Array(memory.buffer, offsets >>> 0, count), 0, count);
      else get(handle).setBindGroup(index, get(group));
    },
    wgpuComputePassEncoderSetImmediates(handle, offset, data, size) {
      guarded(deviceOf(handle), () => get(handle).setImmediates(offset, memory.buffer, data >>> 0, size));
    },
    wgpuComputePassEncoderDispatchWorkgroups: (handle, x, y, z) => get(handle).dispatchWorkgroups(x >>> 0, y >>> 0, z >>> 0),
    wgpuComputePassEncoderDispatchWorkgroupsIndirect: (handle, target, offset) => get(handle).dispatchWorkgroupsIndirect(get(target), Number(offset)),
    wgpuComputePassEncoderEnd: handle => get(handle).end(),
  };

  // What webgpu.h has no function for; src/gpu reaches these through Extensions (web/src/browser_procs.cpp).
  const extensions = {
    /** Waits until at least one callback has run. */
    async gull_suspend() {
      const before = futures.fired;
      for (futures.process(); futures.fired === before; futures.process()) {
        const waiting = futures.waiting;
        await futures.next();
        if (!waiting) return;   // nothing was going to happen
      }
    },
    gull_has_immediates: () => Number('setImmediates' in (globalThis.GPUComputePassEncoder?.prototype ?? {})),
    /** Encodes a recorded list: ReplayStep {pipeline, group, x, y, z, dynamic_offset, has_dynamic}, 32 bits each. */
    gull_replay(handle, steps, count) {
      const target = get(handle), {objects} = table, words = new Uint32Array(memory.buffer, steps >>> 0, 7 * count);
      let last = 0;
      for (let at = 0; at < words.length; at += 7) {
        if (words[at] !== last) target.setPipeline(objects[last = words[at]]);
        if (words[at + 6]) target.setBindGroup(0, objects[words[at + 1]], words, at + 5, 1);
        else target.setBindGroup(0, objects[words[at + 1]]);
        target.dispatchWorkgroups(words[at + 2], words[at + 3], words[at + 4]);
      }
    },
  };

  const env = {...instance, ...adapter, ...device, ...buffer, ...queue, ...encoder, ...pass, ...extensions};
  for (const name of F) {
    if (name.endsWith('Release')) env[name] ??= handle => table.release(handle);
    else if (name.endsWith('AddRef')) env[name] ??= handle => table.addRef(handle);
    else if (name.endsWith('SetLabel')) env[name] ??= (handle, p) => { get(handle).label = string(p) ?? ''; };
  }
  return {
    env, suspending: ['wgpuInstanceWaitAny', 'gull_suspend'],
    bind(wasm) { functions = wasm.exports.__indirect_function_table; },
    /** Objects that C has not released. */
    live: () => table.live,
    /** Every GPUDevice that is alive, for tests of device loss. */
    devices: () => [...new Set(table.objects.filter(o => o?.queue && o?.limits))],
  };
}
