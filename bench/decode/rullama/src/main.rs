// What rullama's kernels take for the matrix products of one token of SmolLM2-135M, all in one submission. It runs Gemma 4 alone,
// so that its other kernels (norms, attention, sampling) are left out: a lower bound. Q4_0 stands for Q4_1, which it has not.
use std::time::Instant;

use rullama::backend::{Pipelines, WgpuCtx, dispatch};

const LAYERS: usize = 30;
/// k → rows of a layer's projections: q, k, v, o, gate, up, down.
const PRODUCTS: [(usize, usize); 7] = [(576, 576), (576, 192), (576, 192), (576, 576), (576, 1536), (576, 1536), (1536, 576)];
const VOCABULARY: usize = 49152;

fn buffer(ctx: &WgpuCtx, bytes: usize) -> wgpu::Buffer {
    ctx.device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: bytes as u64,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    })
}

fn main() {
    let tokens: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(8);
    let ctx = pollster::block_on(WgpuCtx::new()).expect("an adapter");
    let pipelines = Pipelines::new(&ctx.device);
    let x = buffer(&ctx, 1536 * 4);
    let y = buffer(&ctx, VOCABULARY * 4);
    let layers: Vec<Vec<wgpu::Buffer>> = (0..LAYERS)
        .map(|_| PRODUCTS.iter().map(|(k, n)| buffer(&ctx, k / 32 * 18 * n)).collect())
        .collect();
    let head = buffer(&ctx, 576 / 32 * 34 * VOCABULARY);
    let mut best = f64::MAX;
    for _ in 0..=tokens {
        let start = Instant::now();
        let mut encoder = ctx.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: None });
        for layer in &layers {
            for ((k, n), w) in PRODUCTS.iter().zip(layer) {
                dispatch::matmul_q4_0_chained(&ctx, &pipelines, &mut encoder, w, &x, &y, *k, *n);
            }
        }
        dispatch::matmul_q8_0_chained(&ctx, &pipelines, &mut encoder, &head, &x, &y, 576, VOCABULARY);
        ctx.queue.submit(Some(encoder.finish()));
        ctx.device.poll(wgpu::PollType::Wait { submission_index: None, timeout: None }).expect("the GPU's answer");
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{{\"token_ms\": {:.1}}}", best * 1e3);
}
