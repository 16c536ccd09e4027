#!/usr/bin/env python3
"""Makes the vocabularies of the tokenizer tests in tests/data/tokenizer.

    pip install gguf sentencepiece protobuf tokenizers numpy
    make_tokenizer_vocabularies.py --work DIR --smollm2 smollm2-135m-instruct-q4_1.gguf

smollm2.vocab is the vocabulary of SmolLM2-135M-Instruct (Apache-2.0) without its weights; the others are trained here,
on generated strings. The merges of smollm2.vocab are pairs of ids, because every token from some id on is made by one
merge, in order: the other tokens, one a line; an empty line; then two 16-bit numbers a merge.
"""
import argparse
import io
import json
import pathlib
import struct

import gguf
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

import tokenizer_strings

OUT = pathlib.Path(__file__).parent.parent / 'data/tokenizer'
CORPUS = [tokenizer_strings.string(900, i) for i in range(20000)]
NT = gguf.TokenType


def smollm2(path):
    reader = gguf.GGUFReader(path)
    tokens = reader.fields['tokenizer.ggml.tokens'].contents()
    merges = [m.split(' ') for m in reader.fields['tokenizer.ggml.merges'].contents()]
    base = len(tokens) - len(merges)
    ids = {t: i for i, t in enumerate(tokens)}
    assert all(a + b == tokens[base + i] for i, (a, b) in enumerate(merges))
    data = '\n'.join(tokens[:base]).encode() + b'\n\n'
    data += b''.join(struct.pack('<HH', ids[a], ids[b]) for a, b in merges)
    (OUT / 'smollm2.vocab').write_bytes(data)


def writer(name, model):
    w = gguf.GGUFWriter(str(OUT / name), 'llama')
    w.add_tokenizer_model(model)
    return w


def finish(w, tokens, types, scores=None):
    w.add_token_list(tokens)
    w.add_token_types(types)
    if scores:
        w.add_token_scores(scores)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def sentencepiece_model(kind, size):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(s.replace('\n', ' ') or ' ' for s in CORPUS), model_writer=out, model_type=kind, vocab_size=size,
        character_coverage=0.98, byte_fallback=kind == 'bpe', max_sentence_length=100000, pad_id=3, user_defined_symbols=['<user_tag>'],
        normalization_rule_name='identity' if kind == 'bpe' else 'nmt_nfkc', remove_extra_whitespaces=kind != 'bpe',
        num_threads=1, hard_vocab_limit=False)
    return sentencepiece.SentencePieceProcessor(model_proto=out.getvalue()), out.getvalue()


def sentencepiece_file(name, model, kind, size):
    sp, proto = sentencepiece_model(kind, size)
    (WORK / name).with_suffix('.model').write_bytes(proto)
    types = []
    for i in range(sp.vocab_size()):
        types.append(NT.UNKNOWN if sp.is_unknown(i) else NT.CONTROL if sp.is_control(i) else NT.BYTE if sp.is_byte(i) else
                     NT.USER_DEFINED if sp.id_to_piece(i) == '<user_tag>' else NT.NORMAL)
    w = writer(name, model)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_pad_token_id(3)
    if kind == 'unigram':
        parsed = sentencepiece_model_pb2.ModelProto.FromString(proto)
        w.add_add_space_prefix(True)
        w.add_remove_extra_whitespaces(True)
        w.add_precompiled_charsmap(parsed.normalizer_spec.precompiled_charsmap)
    finish(w, [sp.id_to_piece(i) for i in range(sp.vocab_size())], types, [sp.get_score(i) for i in range(sp.vocab_size())])


def wordpiece():
    special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    t = tokenizers.Tokenizer(models.WordPiece(unk_token='[UNK]'))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    corpus = [s.replace('▁', '') for s in CORPUS]
    t.train_from_iterator(corpus, trainers.WordPieceTrainer(vocab_size=4000, limit_alphabet=1200, special_tokens=special, show_progress=False))
    t.save(str(WORK / 'wordpiece.json'))
    vocab = sorted(t.get_vocab().items(), key=lambda kv: kv[1])
    tokens = [x if x in special else x[2:] if x.startswith('##') else '▁' + x for x, _ in vocab]
    w = writer('wordpiece.gguf', 'bert')
    w.add_bos_token_id(2)
    w.add_sep_token_id(3)
    w.add_unk_token_id(1)
    w.add_pad_token_id(0)
    w.add_mask_token_id(4)
    finish(w, tokens, [NT.CONTROL if x in special else NT.NORMAL for x in tokens])


def gemma4():
    special = ['<pad>', '<eos>', '<bos>', '<unk>', '<mask>']
    t = tokenizers.Tokenizer(models.BPE(unk_token='<unk>', byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Replace(' ', '▁')
    t.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(r'\n+'), 'isolated')
    data = [f'<0x{b:02X}>' for b in range(256)]
    corpus = [s for s in CORPUS if not any(x in s for x in special + tokenizer_strings.TABLES['special'])]  # no merges that spell a special token
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=3500, limit_alphabet=1500, special_tokens=special + data, show_progress=False, max_token_length=12))
    t.save(str(WORK / 'gemma4.json'))
    model = json.loads(t.to_str())['model']
    tokens = [x for x, _ in sorted(model['vocab'].items(), key=lambda kv: kv[1])]
    w = writer('gemma4.gguf', 'gemma4')
    w.add_bos_token_id(2)
    w.add_eos_token_id(1)
    w.add_unk_token_id(3)
    w.add_pad_token_id(0)
    w.add_token_merges([' '.join(m) if isinstance(m, list) else m for m in model['merges']])
    types = [NT.CONTROL if x in special else NT.BYTE if x in data else NT.NORMAL for x in tokens]
    finish(w, tokens, types, [0.0] * len(tokens))


if __name__ == '__main__':
    ap = argparse.ArgumentParser()
    ap.add_argument('--smollm2', help='a GGUF file of SmolLM2')
    ap.add_argument('--work', type=pathlib.Path, required=True, help='a folder for the trained models, which make_tokenizer_cases.py compares with')
    args = ap.parse_args()
    WORK = args.work
    OUT.mkdir(exist_ok=True)
    if args.smollm2:
        smollm2(args.smollm2)
    sentencepiece_file('spm.gguf', 'llama', 'bpe', 4000)
    sentencepiece_file('unigram.gguf', 't5', 'unigram', 4000)
    wordpiece()
    gemma4()
