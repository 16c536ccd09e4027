#!/usr/bin/env python3
"""Makes the tiny models of tests/data/fixtures/more.json, and what they must compute.

These cover the architectures and settings that index.json lacks. Weights are random (fixed seeds) and exact in binary16,
the logits are transformers' in float32 with eager attention and no cache; the files come out of llama.cpp's converter.
Where --reference names a program, it runs each file through llama.cpp and the largest difference is printed and noted:
    PROGRAM logits|embd MODEL IDS.txt OUT.f32 N     (N: greedy steps, printed; or the pooling type)

    python3 make_more_fixtures.py --llama-cpp DIR [--reference PROGRAM] [--work DIR] [--only id,id]

Needs torch (CPU), transformers 5, numpy; DIR is a llama.cpp source tree of mid 2026 (conversion/, gguf-py/).
"""
import argparse, json, math, re, subprocess, sys, zlib
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument('--llama-cpp', type=Path, required=True)
parser.add_argument('--reference')
parser.add_argument('--work', type=Path, default=Path('/tmp/gull-more-fixtures'))
parser.add_argument('--out', type=Path, default=Path(__file__).parent.parent / 'data' / 'fixtures')
parser.add_argument('--only', default='')
args = parser.parse_args()
sys.path[:0] = [str(args.llama_cpp), str(args.llama_cpp / 'gguf-py')]
import numpy as np
import torch
import transformers as T
import gguf
from gguf import quants
from transformers.models.gemma4 import Gemma4ForCausalLM, Gemma4TextConfig
from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

torch.set_grad_enabled(False)
torch.set_num_threads(1)
T.logging.set_verbosity_error()
VOCABULARY = 288
SPECIAL = dict(bos_token_id=VOCABULARY - 4, eos_token_id=VOCABULARY - 3, pad_token_id=VOCABULARY - 2)


# ---- vocabulary: 256 bytes, 28 merges, 4 special tokens --------------------------------------------------------------
def write_vocabulary(writer):
    printable = [b for b in range(256) if 33 <= b < 127 or 161 <= b < 173 or 174 <= b]
    rest = [b for b in range(256) if b not in printable]
    spelling = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(rest)}
    letters = 'etaoinshrdlu'
    merges = [f'{a} {b}' for a in letters[:7] for b in letters[7:11]]
    tokens = [spelling[b] for b in printable + rest] + [m.replace(' ', '') for m in merges] + ['<|bos|>', '<|eos|>', '<|pad|>', '<|endoftext|>']
    assert len(tokens) == VOCABULARY
    writer.add_tokenizer_model('gpt2')
    writer.add_tokenizer_pre('default')
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (VOCABULARY - 4) + [gguf.TokenType.CONTROL] * 4)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(VOCABULARY - 4)
    writer.add_eos_token_id(VOCABULARY - 3)
    writer.add_pad_token_id(VOCABULARY - 2)


# ---- weights ----------------------------------------------------------------------------------------------------------
def randomise(model, case):
    """Sizes such that every block matters and the logits have a standard deviation of a few units."""
    tied, gain = bool(getattr(model.config, 'tie_word_embeddings', False)), case.get('embedding_gain', 1.0)
    for name, p in model.named_parameters():
        g = torch.Generator().manual_seed(zlib.crc32(f"{case['id']}/{name}".encode()))
        r = torch.randn(p.shape, generator=g)
        value = case['weights'](name, p, r) if 'weights' in case else None
        if value is None:
            last = name.rsplit('.', 1)[-1]
            if last == 'weight' and ('norm' in name or 'ln_' in name):
                value = r * 0.2 + (0.0 if case.get('norms_add_one') else 1.0)
                if tied and name.endswith(('model.norm.weight', 'norm_f.weight', 'embedding_norm.weight')):
                    value = value + 2.5 / (0.12 * gain * math.sqrt(p.shape[0]))
            elif 'embed' in name or name.startswith('lm_head'):
                value = r * (0.12 if tied else 0.35) * gain
            elif p.dim() == 1 or 'bias' in last or 'sinks' in name:
                value = r * 0.3
            else:
                fan = p.shape[-2] if case.get('experts_transposed') and 'experts' in name else p.shape[-1]
                value = r * (1.6 if 'o_proj' in name or 'down_proj' in name else 1.0) / math.sqrt(fan)
        p.copy_(value.half().float())
    for name, b in model.named_buffers():
        if name.endswith('e_score_correction_bias'):
            g = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            b.copy_((0.2 * torch.randn(b.shape, generator=g)).half().float())
    model.tie_weights()
    return model.eval()


def ssm_weights(name, p, r):
    if name.endswith('A_log'):
        return torch.log(torch.arange(1, p.shape[-1] + 1).float()).expand(p.shape) * 0.7 + 0.1 * r
    if name.endswith(('.D', 'dt_bias', 'dt_proj.bias')):
        return 0.3 * r + (1.0 if name.endswith('.D') else -1.0)
    if 'conv1d.weight' in name:
        return r * 0.5


def as_mxfp4(name, p, r):
    """gpt-oss's experts: values that MXFP4 holds exactly, along the rows that the file will have."""
    if name.endswith('experts.gate_up_proj') or name.endswith('experts.down_proj'):
        w = (r / math.sqrt(p.shape[-2])).transpose(-1, -2).contiguous().numpy()   # [experts, out, in]
        t = gguf.GGMLQuantizationType.MXFP4
        return torch.from_numpy(quants.dequantize(quants.quantize(w.reshape(-1, w.shape[-1]), t), t).reshape(w.shape)).transpose(-1, -2)


# ---- files ------------------------------------------------------------------------------------------------------------
def convert(folder, out, case):
    hparams = ModelBase.load_hparams(folder, False)
    base = get_model_class(get_model_architecture(hparams, ModelType.TEXT))

    def set_vocab(self):
        if hasattr(self, 'vocab_size'):
            self.vocab_size = VOCABULARY
        write_vocabulary(self.gguf_writer)

    cls = type(base.__name__, (base,), {'set_vocab': set_vocab, 'model_arch': base.model_arch})
    out.unlink(missing_ok=True)
    with torch.inference_mode():
        cls(folder, gguf.LlamaFileType.MOSTLY_F16, out, eager=True, model_name='tiny-' + case['id']).write()


def rewrite(path, keys, change):
    """Writes the file anew: `keys` overrides metadata (None leaves a key out), change(name, tensor) gives a list of
    (name, data, type) in place of each tensor, or None to keep it."""
    reader = gguf.GGUFReader(str(path))
    arch = reader.fields['general.architecture'].contents()
    writer = gguf.GGUFWriter(str(path) + '.new', arch)
    for key, field in reader.fields.items():
        if key.startswith('GGUF.') or key == 'general.architecture' or (key in keys and keys[key] is None):
            continue
        value, kind = keys.get(key, field.contents()), field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, value, kind, sub)
    for t in reader.tensors:
        new = change(t.name, t)
        for name, data, kind in [(t.name, t.data, t.tensor_type)] if new is None else new:
            writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    Path(str(path) + '.new').replace(path)


def experts_to_mxfp4(path):
    t4 = gguf.GGMLQuantizationType.MXFP4

    def change(name, t):
        if re.fullmatch(r'blk\.\d+\.ffn_(gate|up|down)_exps\.weight', name):
            w = quants.dequantize(t.data, t.tensor_type)
            q = quants.quantize(w, t4)
            assert np.array_equal(quants.dequantize(q, t4), w), name
            return [(name, q, t4)]

    rewrite(path, {}, change)


def join_latent_matrices(path):
    """A file as converters made them before 2025: attn_kv_b in one piece, lengths of the heads as attention sees them."""
    reader = gguf.GGUFReader(str(path))
    get = lambda key: reader.fields['deepseek2.' + key].contents()
    heads, tensors = get('attention.head_count'), {t.name: t for t in reader.tensors}

    def change(name, t):
        if name.endswith('attn_v_b.weight'):
            return []
        if name.endswith('attn_k_b.weight'):
            v = quants.dequantize(tensors[name.replace('attn_k_b', 'attn_v_b')].data, t.tensor_type)   # [heads, value, latent]
            k = quants.dequantize(t.data, t.tensor_type).transpose(0, 2, 1)                            # [heads, plain, latent]
            both = np.concatenate([k, v], axis=1)
            return [(name.replace('attn_k_b', 'attn_kv_b'), both.reshape(-1, both.shape[-1]).astype(np.float16), gguf.GGMLQuantizationType.F16)]

    keys = {'attention.head_count_kv': heads, 'attention.key_length': get('attention.key_length_mla'), 'attention.value_length': get('attention.value_length_mla'),
            'attention.key_length_mla': None, 'attention.value_length_mla': None}
    rewrite(path, {'deepseek2.' + k: v for k, v in keys.items()}, change)


def last_pooling(folder):
    (folder / 'modules.json').write_text(json.dumps([{'idx': 1, 'name': '1', 'path': '1_Pooling', 'type': 'sentence_transformers.models.Pooling'}]))
    (folder / '1_Pooling').mkdir(exist_ok=True)
    (folder / '1_Pooling' / 'config.json').write_text(json.dumps({'pooling_mode_cls_token': False, 'pooling_mode_mean_tokens': False, 'pooling_mode_lasttoken': True}))


# ---- cases ------------------------------------------------------------------------------------------------------------
SMALL = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=512, attn_implementation='eager', **SPECIAL)
FULL, LOCAL = 'full_attention', 'sliding_attention'
ROPE = lambda theta, kind='default', **more: {'rope_type': kind, 'rope_theta': theta, **more}
YARN = dict(factor=8.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0)


def make(cls, **settings):
    def build(**changes):
        return cls(cls.config_class(**{**SMALL, **settings, **changes}))
    return build


DEEPSEEK = dict(hidden_size=32, num_hidden_layers=3, num_key_value_heads=4, first_k_dense_replace=1, moe_intermediate_size=32, n_shared_experts=2, num_experts_per_tok=2, n_routed_experts=8,
                kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12, head_dim=8, intermediate_size=64)
CASES = [
    dict(id='olmo2', make=make(T.Olmo2ForCausalLM, rope_parameters=ROPE(500000.0)), note='norms after the blocks, q and k normalised whole'),
    dict(id='olmo3', n=40, make=make(T.Olmo3ForCausalLM, num_hidden_layers=4, sliding_window=8, layer_types=[LOCAL, LOCAL, LOCAL, FULL], intermediate_size=64,
         rope_parameters={LOCAL: ROPE(10000.0), FULL: ROPE(10000.0, 'yarn', **YARN)}), without={'window': dict(sliding_window=512)},
         note='arch "olmo2": windows of 8 in three of four layers, YaRN in the fourth alone'),
    dict(id='gpt-oss', n=40, experts_transposed=True, weights=as_mxfp4, after=experts_to_mxfp4, make=make(T.GptOssForCausalLM, hidden_size=64, intermediate_size=64, head_dim=16,
         num_local_experts=4, num_experts_per_tok=2, sliding_window=8, layer_types=[LOCAL, FULL], rope_parameters=ROPE(150000.0, 'yarn', truncate=False, **YARN)),
         without={'window': dict(sliding_window=512)}, note='MXFP4 experts with biases and a bounded gate, sinks, alternating window 8, YaRN without rounding'),
    dict(id='gemma', norms_add_one=True, embedding_gain=0.3, make=make(T.GemmaForCausalLM, head_dim=32, intermediate_size=64, num_key_value_heads=1, tie_word_embeddings=True, rope_parameters=ROPE(10000.0)),
         note='Gemma 1: no norms after blocks, head_dim 32 != hidden/heads, one kv head'),
    dict(id='gemma3-linear', n=40, norms_add_one=True, embedding_gain=0.3, make=make(T.Gemma3ForCausalLM, num_hidden_layers=6, head_dim=16, intermediate_size=32, query_pre_attn_scalar=16, sliding_window=8,
         tie_word_embeddings=True, rope_parameters={FULL: ROPE(1000000.0, 'linear', factor=8.0), LOCAL: ROPE(10000.0)}),
         without={'scaling': dict(rope_parameters={FULL: ROPE(1000000.0), LOCAL: ROPE(10000.0)})}, note='linear rope scaling of the global layers alone, as in Gemma 3 from 4B on'),
    dict(id='gemma4-12b', n=40, embedding_gain=0.3, make=lambda **c: Gemma4ForCausalLM(Gemma4TextConfig(**{**SMALL, **dict(num_hidden_layers=3, head_dim=16, global_head_dim=32, num_key_value_heads=2,
         num_global_key_value_heads=1, attention_k_eq_v=True, intermediate_size=48, sliding_window=8, layer_types=[LOCAL, LOCAL, FULL], num_kv_shared_layers=0,
         hidden_size_per_layer_input=0, final_logit_softcapping=30.0, tie_word_embeddings=True), **c})), without={'window': dict(sliding_window=512)},
         note='dense Gemma 4: V = K on the global layer, no embeddings for each layer, no experts'),
    dict(id='granite', make=make(T.GraniteForCausalLM, embedding_multiplier=6.0, residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=0.7, rope_parameters=ROPE(10000.0)),
         without={'residual': dict(residual_multiplier=1.0), 'attention': dict(attention_multiplier=0.25)}, note='embedding, residual, attention and logit multipliers'),
    dict(id='granitemoe', make=make(T.GraniteMoeForCausalLM, embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=0.7, num_local_experts=6,
         num_experts_per_tok=2, intermediate_size=32, rope_parameters=ROPE(10000.0)), note='granite with 6 experts, top 2'),
    dict(id='smollm3', make=make(T.SmolLM3ForCausalLM, num_hidden_layers=4, intermediate_size=64, use_sliding_window=False, tie_word_embeddings=True, no_rope_layer_interval=4,
         rope_parameters=ROPE(50000.0)), without={'layers without rope': dict(no_rope_layers=[1, 1, 1, 1])}, note='the fourth layer has no rotation'),
    dict(id='mixtral', make=make(T.MixtralForCausalLM, intermediate_size=48, num_local_experts=4, num_experts_per_tok=2, sliding_window=None, rope_parameters=ROPE(1000000.0)),
         note='arch "llama" with 4 experts, top 2, renormalised'),
    dict(id='deepseek2', make=make(T.DeepseekV2ForCausalLM, **DEEPSEEK, q_lora_rank=24, topk_method='greedy', routed_scaling_factor=1.5, norm_topk_prob=False, n_group=1, topk_group=1,
         rope_parameters=ROPE(10000.0, 'yarn', mscale=0.707, mscale_all_dim=0.707, **YARN)),
         without={'YaRN': dict(rope_parameters=ROPE(10000.0))}, note='latent attention (absorbed), YaRN with mscale, dense first layer, 8 experts top 2 + 2 shared'),
    dict(id='deepseek2-unsplit', like='deepseek2', after=join_latent_matrices, make=make(T.DeepseekV2ForCausalLM, **DEEPSEEK, q_lora_rank=24, topk_method='greedy', routed_scaling_factor=1.5,
         norm_topk_prob=False, n_group=1, topk_group=1, rope_parameters=ROPE(10000.0, 'yarn', mscale=0.707, mscale_all_dim=0.707, **YARN)),
         note='the same model in the older form: attn_kv_b in one piece'),
    dict(id='deepseek3', make=make(T.DeepseekV3ForCausalLM, **DEEPSEEK, q_lora_rank=24, routed_scaling_factor=2.5, scoring_func='sigmoid', norm_topk_prob=True, n_group=4, topk_group=2,
         rope_parameters=ROPE(10000.0)), note='arch "deepseek2": sigmoid router with a choice bias, 4 groups of which 2 are used, no scaling'),
    dict(id='phi3-longrope', n=48, make=make(T.Phi3ForCausalLM, num_key_value_heads=4, sliding_window=None, original_max_position_embeddings=32, pad_token_id=0,
         rope_parameters=ROPE(10000.0, 'longrope', original_max_position_embeddings=32, short_factor=[1.0 + 0.02 * i for i in range(8)],
                              long_factor=[1.2 + 0.5 * i for i in range(8)])), note='LongRoPE: a prompt beyond the original 32 tokens takes the long factors'),
    dict(id='phi3-window', n=40, make=make(T.Phi3ForCausalLM, num_key_value_heads=4, sliding_window=8, original_max_position_embeddings=512, pad_token_id=0, rope_parameters=ROPE(10000.0)),
         without={'window': dict(sliding_window=None)}, note='a window of 8 in every layer (llama.cpp leaves it aside)'),
    dict(id='phi3-partial', make=make(T.Phi3ForCausalLM, num_key_value_heads=2, sliding_window=None, original_max_position_embeddings=512, pad_token_id=0, tie_word_embeddings=True,
         partial_rotary_factor=0.75, rope_parameters=ROPE(10000.0, partial_rotary_factor=0.75)), note='as Phi 4 mini: three quarters of a head rotate, grouped queries, tied embeddings'),
    dict(id='qwen3-yarn', n=48, make=make(T.Qwen3ForCausalLM, head_dim=32, intermediate_size=64, rope_parameters=ROPE(10000.0, 'yarn', factor=4.0, original_max_position_embeddings=32)),
         without={'YaRN': dict(rope_parameters=ROPE(10000.0))}, note='YaRN with its own magnitude'),
    dict(id='llama-linear', n=40, make=make(T.LlamaForCausalLM, rope_parameters=ROPE(10000.0, 'linear', factor=4.0)), without={'scaling': dict(rope_parameters=ROPE(10000.0))},
         note='linear rope scaling'),
    dict(id='mamba2', n=24, weights=ssm_weights, make=lambda **c: T.Mamba2ForCausalLM(T.Mamba2Config(**{**dict(vocab_size=VOCABULARY, hidden_size=32, state_size=16, num_hidden_layers=2,
         expand=2, conv_kernel=4, head_dim=16, num_heads=4, n_groups=2, chunk_size=8, tie_word_embeddings=False, **SPECIAL), **c})),
         note='Mamba 2: heads share a time step, two groups share B and C, gated group norm'),
    dict(id='falcon-mamba', n=24, weights=ssm_weights, make=lambda **c: T.FalconMambaForCausalLM(T.FalconMambaConfig(**{**dict(vocab_size=VOCABULARY, hidden_size=32, state_size=16,
         num_hidden_layers=2, expand=2, conv_kernel=4, time_step_rank=4, tie_word_embeddings=False, layer_norm_epsilon=1e-5, mixer_rms_eps=1e-5, **SPECIAL), **c})),
         note='arch "mamba" with norms of the time step, B and C'),
    dict(id='falcon-h1-norm', n=24, weights=ssm_weights, make=make(T.FalconH1ForCausalLM, hidden_size=32, intermediate_size=48, head_dim=16, num_attention_heads=2, num_key_value_heads=1,
         mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=16, mamba_d_conv=4, mamba_chunk_size=32, mamba_rms_norm=True, mamba_norm_before_gate=False,
         rope_parameters=ROPE(100000.0)), note='the state-space part normalised in two groups after its gate'),
    dict(id='lfm2moe', n=24, make=make(T.Lfm2MoeForCausalLM, hidden_size=32, intermediate_size=48, moe_intermediate_size=32, num_hidden_layers=4, num_experts=4, num_experts_per_tok=2,
         num_dense_layers=1, layer_types=['conv', 'conv', FULL, 'conv'], conv_L_cache=3, conv_bias=False, use_expert_bias=True, norm_topk_prob=True, routed_scaling_factor=1.0,
         tie_word_embeddings=True, rope_parameters=ROPE(1000000.0)), note='short convolutions and a mixture with a sigmoid router and a choice bias'),
    dict(id='qwen3-embedding', kind='embedding', before=last_pooling, make=make(T.Qwen3Model, head_dim=16, rope_parameters=ROPE(1000000.0)), note='causal, last-token pooling'),
]


# ---- running ----------------------------------------------------------------------------------------------------------
def logits_of(model, ids):
    return model(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()


def greedy(model, ids, steps=16):
    ids, margin = list(ids), math.inf
    start = len(ids)
    for _ in range(steps):
        last = logits_of(model, ids)[-1]
        best = np.sort(last)[-2:]
        margin = min(margin, float(best[1] - best[0]))
        ids.append(int(last.argmax()))
    return ids[start:], margin


def choose_prompt(model, n):
    """The first of a few random prompts whose greedy path has no near tie and is not all the same."""
    best = None
    for seed in range(16):
        ids = np.random.RandomState(seed).randint(0, VOCABULARY - 4, n).tolist()
        path, margin = greedy(model, ids)
        score = margin if len(set(path)) >= 6 else margin * 0.1
        if best is None or score > best[0]:
            best = (score, ids, path, margin)
        if score > 0.05:
            break
    return best[1:]


def reference(mode, path, ids, last, width):
    (args.work / 'ids.txt').write_text(' '.join(map(str, ids)))
    out = args.work / 'reference.f32'
    run = subprocess.run([args.reference, mode, str(path), str(args.work / 'ids.txt'), str(out), str(last)], capture_output=True, text=True)
    if run.returncode:
        return None, (run.stderr.strip().splitlines() or ['?'])[-1]
    return np.fromfile(out, np.float32).reshape(-1, width), run.stdout


def run_case(case):
    model = case['make']()
    model.config._attn_implementation = 'eager'
    seeds = {**case, 'id': case.get('like', case['id'])}
    randomise(model, seeds)
    folder = args.work / case['id']
    model.save_pretrained(folder)
    (folder / 'tokenizer.json').write_text(json.dumps({'model': {'type': 'WordPiece', 'vocab': {f't{i}': i for i in range(VOCABULARY)}}, 'added_tokens': []}))
    if 'before' in case:
        case['before'](folder)
    path = args.out / 'models' / f"{case['id']}.f16.gguf"
    convert(folder, path, case)
    if 'after' in case:
        case['after'](path)
    arch = gguf.GGUFReader(str(path)).fields['general.architecture'].contents()
    entry = {'id': case['id'], 'kind': case.get('kind', 'logits'), 'arch': arch, 'model': f"models/{case['id']}.f16.gguf"}
    if entry['kind'] == 'embedding':
        ids = np.random.RandomState(7).randint(0, VOCABULARY - 4, 32).tolist()
        golden = model(torch.tensor([ids])).last_hidden_state[0].float().numpy()
        golden.astype('<f4').tofile(args.out / 'logits' / f"{case['id']}.tokens.f32")
        golden[-1].astype('<f4').tofile(args.out / 'logits' / f"{case['id']}.pooled.f32")
        entry.update(prompt=ids, token_embeddings=f"logits/{case['id']}.tokens.f32", pooled=f"logits/{case['id']}.pooled.f32", pooling='last', shape=list(golden.shape))
    else:
        ids, path_ids, margin = choose_prompt(model, case.get('n', 32))
        golden = logits_of(model, ids)
        golden.astype('<f4').tofile(args.out / 'logits' / f"{seeds['id']}.f32")
        entry.update(prompt=ids, logits=f"logits/{seeds['id']}.f32", shape=list(golden.shape), greedy=path_ids, greedy_min_margin=round(margin, 4))
    entry['std'] = round(float(golden.std()), 4)
    if args.reference:
        embedding = entry['kind'] == 'embedding'
        got, said = reference('embd' if embedding else 'logits', path, ids, 0 if embedding else 16, golden.shape[-1])
        if got is None:
            print('   llama.cpp:', said[:200])
        else:
            entry['llamacpp_f16_max_abs_diff'] = float(np.abs(got - golden).max())
            if not embedding:
                entry['llamacpp_greedy_equal'] = [int(x) for x in said.split()] == entry['greedy']
    if 'without' in case:
        entry['changes_without'] = {}
        for label, changes in case['without'].items():
            other = case['make'](**changes)
            other.config._attn_implementation = 'eager'
            randomise(other, seeds)
            entry['changes_without'][label] = round(float(np.abs(logits_of(other, ids) - golden).max()), 3)
    # 16-bit activations: a few times what llama.cpp's own are off, never less than the public fixtures allow.
    entry['tol_f32'], entry['tol_f16'] = 0.002, float(f"{max(0.03, 4 * entry.get('llamacpp_f16_max_abs_diff', 0.02)):.1g}")
    entry['note'] = case['note']
    print(f"{case['id']:20} {arch:12} std {entry['std']:.2f} margin {entry.get('greedy_min_margin')} distinct {len(set(entry.get('greedy', [])))} "
          f"llama.cpp {entry.get('llamacpp_f16_max_abs_diff')} {entry.get('llamacpp_greedy_equal')} {entry.get('changes_without', '')} {path.stat().st_size} bytes", flush=True)
    return entry


def main():
    args.work.mkdir(parents=True, exist_ok=True)
    index = args.out / 'more.json'
    entries = {e['id']: e for e in json.loads(index.read_text())['cases']} if index.exists() else {}
    only = set(filter(None, args.only.split(',')))
    for case in CASES:
        if only and case['id'] not in only:
            continue
        try:
            entries[case['id']] = run_case(case)
        except Exception as error:   # the other cases are still worth making
            import traceback
            traceback.print_exc()
            print('FAILED', case['id'], repr(error)[:300], flush=True)
    order = [c['id'] for c in CASES]
    cases = sorted(entries.values(), key=lambda e: order.index(e['id']))
    lines = ',\n'.join('  ' + json.dumps(e) for e in cases)
    index.write_text('{\n "format": "as index.json; made by tests/engine/make_more_fixtures.py",\n "cases": [\n' + lines + '\n ]\n}\n')


main()
