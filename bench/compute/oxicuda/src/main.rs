//! oxicuda-gemm-bench SIZE...: f32 gemm of N x N x N through oxicuda-webgpu, in the lines that gemm_bench --json prints.
use oxicuda_backend::{BackendTranspose, ComputeBackend};
use std::time::Instant;

/// The values of gemm_bench: +-0.5 and 1 in turns.
fn values(n: usize) -> Vec<u8> {
    (0..n as u32)
        .flat_map(|i| match i.wrapping_mul(2654435761) >> 30 {
            0 => 1.0f32,
            1 => -0.5,
            _ => 0.5,
        }.to_le_bytes())
        .collect()
}

fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).map(|a| a.parse().expect("a size")).collect();
    let mut gpu = oxicuda_webgpu::WebGpuBackend::new();
    gpu.init().expect("an adapter");
    let device = gpu.available_devices().ok().and_then(|d| d.first().map(|d| d.name.clone())).unwrap_or_default();
    for n in sizes {
        let bytes = values(n * n);
        let [a, b, c] = [0; 3].map(|_| gpu.alloc(bytes.len()).expect("memory"));
        for ptr in [a, b, c] {
            gpu.copy_htod(ptr, &bytes).expect("a copy");
        }
        let run = || {
            let start = Instant::now();
            gpu.gemm(BackendTranspose::NoTrans, BackendTranspose::NoTrans, n, n, n, 1.0, a, n, b, n, 0.0, c, n).expect("gemm");
            gpu.synchronize().expect("synchronize");
            start.elapsed().as_secs_f64()
        };
        run(); // compiled and warm
        let repeats = ((1.0 / run()) as usize).clamp(1, 200);
        let best = (0..repeats).map(|_| run()).fold(f64::INFINITY, f64::min);
        println!(
            "{{\"op\":\"gemm\",\"peer\":\"oxicuda-webgpu 0.5.5\",\"type\":\"f32\",\"m\":{n},\"n\":{n},\"k\":{n},\"latency_ms\":{:.4},\"gflops\":{:.2},\"device\":\"{device}\"}}",
            best * 1e3,
            2.0 * (n as f64).powi(3) / best / 1e9
        );
        for ptr in [a, b, c] {
            let _ = gpu.free(ptr);
        }
    }
}
