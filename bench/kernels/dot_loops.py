#!/usr/bin/env python3
"""How many 8-bit operations a second a tile's inner loop can do on this GPU, with more and more of what it needs around them.

usage: dot_loops.py            needs the PyPI packages wgpu 0.32.0 and, for it, cffi and rendercanvas

A workgroup of 256 threads multiplies TM × TN results a thread from workgroup memory, as matmul8 does, but stages nothing: what
is left is the arithmetic and the reads of workgroup memory. No kernel of this kind can be faster on the device.
"""
import wgpu
from wgpu.backends.wgpu_native import _api
from wgpu.backends.wgpu_native._ffi import ffi

LOOPS, GROUPS = 1024, 132 * 8
# What becomes of the sum of 32 products: c is the result, w and s are the scales of the weights and of the activations.
STEPS = {
    "dot products alone, summed as integers": "{c} += {d};",
    "converted and scaled": "{c} = fma({w}.x * {s}.x, f32({d}), {c});",
    "converted, scaled, with an offset": "{c} = fma({w}.x * {s}.x, f32({d}), fma({w}.y, {s}.y, {c}));",
}


class Trusted:
    """wgpu-native's functions, with shader modules that keep no bounds checks."""

    def __init__(self, functions):
        self._functions = functions

    def __getattr__(self, name):
        if name == "wgpuDeviceCreateShaderModule":
            return lambda device, text: self._functions.wgpuDeviceCreateShaderModuleTrusted(device, text, ffi.new("WGPUShaderRuntimeChecks*")[0])
        return getattr(self._functions, name)


def kernel(tm, tn, step):
    bm, bn = 16 * tm, 16 * tn
    zero = "0" if step.startswith("{c} += ") else "0.0"
    lines = [
        "@group(0) @binding(0) var<storage, read_write> out: array<f32>;",
        f"var<workgroup> xq: array<vec4<u32>, {bm * 4}>; var<workgroup> xs: array<vec2<f32>, {bm * 2}>;",
        f"var<workgroup> wq: array<vec4<u32>, {bn * 4}>; var<workgroup> ws: array<vec2<f32>, {bn * 2}>;",
        "fn d4(w: vec4<u32>, a: vec4<u32>) -> i32 {",
        "  return dot4I8Packed(w.x, a.x) + dot4I8Packed(w.y, a.y) + dot4I8Packed(w.z, a.z) + dot4I8Packed(w.w, a.w);",
        "}",
        "@compute @workgroup_size(256)",
        "fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) g: vec3<u32>) {",
        f"  for (var i = t; i < {bm * 4}u; i += 256u) {{ xq[i] = vec4<u32>(i * 77u + g.x, i, i * 3u, 5u); }}",
        f"  for (var i = t; i < {bn * 4}u; i += 256u) {{ wq[i] = vec4<u32>(i * 77u + g.x, i, i * 3u, 5u); }}",
        f"  for (var i = t; i < {bm * 2}u; i += 256u) {{ xs[i] = vec2<f32>(f32(i), 1.0); }}",
        f"  for (var i = t; i < {bn * 2}u; i += 256u) {{ ws[i] = vec2<f32>(f32(i), 1.0); }}",
        "  workgroupBarrier();",
        "  let tx = (t & 7u) | ((t >> 2u) & 8u);",
        "  let ty = ((t >> 3u) & 3u) | ((t >> 6u) << 2u);",
        "  var random = g.x;",
    ]
    lines += [f"  var c{i}_{j} = {zero};" for i in range(tm) for j in range(tn)]
    # Which half of the staged blocks is next cannot be foreseen, so that nothing is kept from one round to the next.
    lines += [f"  for (var l = 0u; l < {LOOPS}u; l++) {{", "    random = random * 1664525u + 1013904223u;", "    let h = random >> 31u;"]
    for i in range(tm):
        lines.append(f"    let a{i} = xq[h * {2 * bm}u + ty + {i * 16}u]; let b{i} = xq[h * {2 * bm}u + {bm}u + ty + {i * 16}u]; let s{i} = xs[h * {bm}u + ty + {i * 16}u];")
    for j in range(tn):
        lines.append(f"    let p{j} = wq[h * {2 * bn}u + tx + {j * 16}u]; let q{j} = wq[h * {2 * bn}u + {bn}u + tx + {j * 16}u]; let w{j} = ws[h * {bn}u + tx + {j * 16}u];")
        for i in range(tm):
            lines.append("    " + step.format(c=f"c{i}_{j}", d=f"(d4(p{j}, a{i}) + d4(q{j}, b{i}))", w=f"w{j}", s=f"s{i}"))
    total = " + ".join(f"f32(c{i}_{j})" for i in range(tm) for j in range(tn))
    return "\n".join(lines + ["  }", f"  out[g.x * 256u + t] = {total};", "}"])


def seconds(device, code):
    module = device.create_shader_module(code=code)
    pipeline = device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
    out = device.create_buffer(size=GROUPS * 256 * 4, usage=wgpu.BufferUsage.STORAGE)
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=[{"binding": 0, "resource": {"buffer": out, "offset": 0, "size": out.size}}])
    queries = device.create_query_set(type="timestamp", count=2)
    times = device.create_buffer(size=16, usage=wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC)
    best = float("inf")
    for _ in range(4):
        encoder = device.create_command_encoder()
        compute = encoder.begin_compute_pass(timestamp_writes={"query_set": queries, "beginning_of_pass_write_index": 0, "end_of_pass_write_index": 1})
        compute.set_pipeline(pipeline)
        compute.set_bind_group(0, group)
        compute.dispatch_workgroups(GROUPS)
        compute.end()
        encoder.resolve_query_set(queries, 0, 2, times, 0)
        device.queue.submit([encoder.finish()])
        begin, end = device.queue.read_buffer(times).cast("Q")
        best = min(best, (end - begin) * 1e-9)
    return best


def main():
    _api.libf = Trusted(_api.libf)
    adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    device = adapter.request_device_sync(required_features=["timestamp-query"])
    print(adapter.info["device"])
    for name, step in STEPS.items():
        for tm, tn in ((4, 4), (4, 8), (8, 4)):
            rate = 256 * LOOPS * tm * tn * 64 * GROUPS / seconds(device, kernel(tm, tn, step))
            print(f"{name:40s} {tm} x {tn} results a thread {rate * 1e-12:8.1f} TOP/s", flush=True)


if __name__ == "__main__":
    main()
