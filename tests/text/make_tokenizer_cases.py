#!/usr/bin/env python3
"""Writes tests/data/tokenizer/cases.json: what other tokenizers make of generated strings, as one hash per 100 strings.

    pip install gguf sentencepiece tokenizers numpy
    make_tokenizer_cases.py --work DIR --llama-source DIR --llama-libraries DIR

DIR of --work is that of make_tokenizer_vocabularies.py. llama.cpp is given by its sources (for the headers) and by a
folder with libllama and libggml*: both sides of this script are built without gull. The truth of the byte-level models
and of WordPiece is the `tokenizers` library with the patterns that the models' own tokenizer.json files have; of the
others it is llama.cpp. Where a second implementation exists, the number of strings on which it differs is printed and
kept in the file ("differs"): llama.cpp approximates some patterns, and Hangul in BERT.
"""
import argparse
import json
import pathlib
import re
import struct
import subprocess

import gguf
import sentencepiece
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

import tokenizer_strings

DATA = pathlib.Path(__file__).parent.parent / 'data/tokenizer'

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI_UPPER, KIMI_LOWER = UPPER[:-1] + r"&&[^\p{Han}]]", LOWER[:-1] + r"&&[^\p{Han}]]"
ASCII_PUNCTUATION = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
DEEPSEEK3 = [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
             ASCII_PUNCTUATION + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
CJK = '[一-龥ࠀ-一가-\ud7ff]+'
# The cased letters that DeepSeek-LLM's pattern lists.
CASED = re.sub(r'\w+', lambda m: rf'\x{{{m[0]}}}', ('0041-005a 0061-007a 00b5 00c0-00d6 00d8-00f6 00f8-01ba 01bc-01bf 01c4-0293 0295-02af 0370-0373 0376 0377 037b-037d 037f 0386 '
         '0388-038a 038c 038e-03a1 03a3-03f5 03f7-0481 048a-052f 0531-0556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b '
         '1d6b-1d77 1d79-1d9a 1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 '
         '1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 212a-212d 212f-2134 '
         '2139 213c-213f 2145-2149 214e 2183 2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2 2cf3 a640-a66d a680-a69b a722-a76f a771-a787 a78b-a78e '
         'ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f 104b0-104d3 104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df '
         '1e900-1e943 ')).replace(' ', '')
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"

# name → patterns, one after the other; "whole" where a word that is a token needs no merges. None: only llama.cpp knows.
TYPES = {
    'default': ([r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"], False),
    'gpt-2': ([GPT2], False),
    'smollm': ([r"\p{N}", GPT2], False),
    'llama-bpe': ([LLAMA3], True),
    'dbrx': ([LLAMA3], False),
    'qwen2': ([QWEN2], False),
    'qwen35': ([CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"], False),
    'minicpm5': ([r"\p{N}{1,3}", LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")], True),
    'jais-2': ([LLAMA3.replace(r"|\s+(?!\S)|\s+", ''.join(rf"|\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}")], False),
    'laguna': ([r"[^\n]+|[\n]+", QWEN2], False),
    'ufakzeka': ([QWEN2[len(CONTRACTION) + 1:]], False),
    'seed-coder': ([CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"], False),
    'bailingmoe': ([r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"], False),
    'exaone-moe': ([CONTRACTION + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"], False),
    'deepseek-llm': ([r"[\r\n]", rf"\s?[{CASED}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", CJK, r"\p{N}+"], False),
    'deepseek-coder': ([r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"], False),
    'deepseek-v3': (DEEPSEEK3, False),
    'spark2_5': (DEEPSEEK3[:2] + [DEEPSEEK3[2].replace(r"[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+", r"[\p{P}\p{S}]+|[\r\n]"), r"\p{N}"], False),
    'afmoe': ([r"\p{N}+", r"\p{N}{1,3}(?=(?:\p{N}{3})*\z)",
               "[一-鿿㐀-䶿\uf900-\ufaff\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2fdfเ-\u0e7f\u0e80-\u0effក-\u17ffက-႟ꩠ-ꩿꧠ-\ua9ff가-\ud7afᄀ-ᇿ]+", DEEPSEEK3[2]], False),
    'gpt-4o': ([O200K], False),
    'granite-embed-multi-97m': ([O200K], True),
    'tiny_aya': ([r"\d{1,3}(?=(?:\d{3})*\b)", O200K], False),
    'tekken': ([O200K.replace(CONTRACTION + '?', '').replace(r"\p{N}{1,3}", r"\p{N}")], True),
    'kimi-k2': ([r"[\p{Han}]+|" + O200K.replace(UPPER, KIMI_UPPER).replace(LOWER, KIMI_LOWER).replace(r"[\r\n/]*", r"[\r\n]*")], False),
    'youtu': ([r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥" + "\u3040" + r"-ゟ゠-ヿ]+", O200K.replace(r"\p{N}{1,3}", r"\p{N}")], True),
    'falcon': ([r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"], False),
    'bloom': ([BLOOM], False),
    'viking': ([BLOOM, r"\p{N}"], False),
    'chameleon': ([r"<sentinel:[0-9]+>", r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", GPT2], False),
    'superbpe': None,
}

LLAMA = r'''
#include <cstdio>
#include <string>
#include <vector>
#include "llama.h"
int main(int, char** argv) {  // MODEL RECORDS: the ids of each string, special tokens parsed in every second one
  llama_backend_init();
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  auto params = llama_model_default_params();
  params.vocab_only = true;
  auto* model = llama_model_load_from_file(argv[1], params);
  if (!model) return 1;
  auto* vocab = llama_model_get_vocab(model);
  FILE* in = fopen(argv[2], "rb");
  size_t n;
  for (int i = 0; fscanf(in, "%zu", &n) == 1; ++i) {
    fgetc(in);
    std::string s(n, 0);
    if (n && fread(&s[0], 1, n, in) != n) return 2;
    std::vector<llama_token> ids(n * 4 + 16);
    int count = llama_tokenize(vocab, s.data(), n, ids.data(), ids.size(), false, i & 1);
    for (int k = 0; k < count; ++k) printf("%d ", ids[k]);
    puts("");
  }
}
'''


class LlamaCpp:
    def __init__(self, work, source, libraries):
        self.work = work
        (work / 'ids.cpp').write_text(LLAMA)
        libs = [p for name in ('libllama*.so', 'libggml.*so', 'libggml-base*.so') for p in sorted(libraries.glob(name))]
        subprocess.run(['g++', '-O1', '-std=c++17', work / 'ids.cpp', '-o', work / 'ids', f'-I{source}/include', f'-I{source}/ggml/include',
                        *[p for p in libs if 'common' not in p.name], f'-Wl,-rpath,{libraries}', '-Wl,--allow-shlib-undefined'], check=True)

    def ids(self, model, strings):
        records = self.work / 'strings.rec'
        records.write_bytes(b''.join(b'%d\n%s\n' % (len(b), b) for b in (s.encode() for s in strings)))
        out = subprocess.run([self.work / 'ids', model, records], capture_output=True, text=True, check=True).stdout
        return [[int(x) for x in line.split()] for line in out.split('\n')[:-1]]


def smollm2():
    head, merges = (DATA / 'smollm2.vocab').read_bytes().split(b'\n\n', 1)
    tokens = head.decode().split('\n')
    pairs = list(struct.iter_unpack('<HH', merges))
    names = []
    for a, b in pairs:
        names.append((tokens[a], tokens[b]))
        tokens.append(tokens[a] + tokens[b])
    return tokens, names


def smollm2_file(path, pre, tokens, merges):
    w = gguf.GGUFWriter(str(path), 'llama')
    w.add_tokenizer_model('gpt2')
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.CONTROL] * 17 + [gguf.TokenType.NORMAL] * (len(tokens) - 17))
    w.add_token_merges([f'{a} {b}' for a, b in merges])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def with_special(make, special, strings):
    """Ids by two tokenizers, without and with these special tokens, in turn."""
    plain, parsing = make(), make()
    parsing.add_special_tokens([tokenizers.AddedToken(t, normalized=False, special=True) for t in special])
    return [(parsing if i & 1 else plain).encode(s, add_special_tokens=False).ids for i, s in enumerate(strings)]


def byte_level(patterns, whole, tokens, merges):
    def make():
        t = tokenizers.Tokenizer(models.BPE({x: i for i, x in enumerate(tokens)}, merges, ignore_merges=whole))
        splits = [pre_tokenizers.Split(tokenizers.Regex(p), 'isolated') for p in patterns]
        t.pre_tokenizer = pre_tokenizers.Sequence(splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        return t
    return make


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ('work', 'llama-source', 'llama-libraries'):
        ap.add_argument('--' + name, type=pathlib.Path, required=True)
    args = ap.parse_args()
    llama = LlamaCpp(args.work, args.llama_source, args.llama_libraries)
    cases = []

    def add(truth, ids, others, **case):
        count = len(ids)
        differs = {name: sum(b is not None and a != b for a, b in zip(ids, other)) for name, other in others.items()}
        cases.append({**case, 'strings': count, 'truth': truth, 'differs': differs,
                      'hashes': [tokenizer_strings.ids_hash(ids[i:i + 100]) for i in range(0, count, 100)]})
        print(f"{case['vocabulary']:10} {case.get('pre', ''):24} {count:6} strings by {truth}; others differ on {differs}", flush=True)

    tokens, merges = smollm2()
    for seed, (pre, type_) in enumerate(TYPES.items(), 1):
        strings = [tokenizer_strings.string(seed, i) for i in range(10000 if pre == 'smollm' else 2000)]
        path = args.work / 'smollm2.gguf'
        smollm2_file(path, pre, tokens, merges)
        by_llama = llama.ids(path, strings)
        if type_ is None:
            add('llama.cpp', by_llama, {}, vocabulary='smollm2', pre=pre, seed=seed)
            continue
        ids = with_special(byte_level(*type_, tokens, merges), tokens[:17], strings)
        add('tokenizers', ids, {'llama.cpp': by_llama}, vocabulary='smollm2', pre=pre, seed=seed)

    for seed, name in ((101, 'spm'), (102, 'unigram'), (103, 'gemma4'), (104, 'wordpiece')):
        without = '▁' if name == 'wordpiece' else ''  # GGUF spells the beginning of a word with it
        strings = [tokenizer_strings.string(seed, i) for i in range(10000)]
        strings = [s.replace(without, '') if without else s for s in strings]
        by_llama = llama.ids(DATA / f'{name}.gguf', strings)
        if name == 'wordpiece':
            def make():
                t = tokenizers.Tokenizer.from_file(str(args.work / 'wordpiece.json'))
                vocab = {k: v for k, v in t.get_vocab().items()}
                plain = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token='[UNK]', max_input_chars_per_word=10 ** 6))
                plain.normalizer, plain.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
                return plain
            ids = with_special(make, ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'], strings)
            add('tokenizers', ids, {'llama.cpp': by_llama}, vocabulary=name, seed=seed, without=without)
            continue
        others = {}
        if name != 'gemma4':  # SentencePiece parses no control tokens, and adds no space after a user-defined one
            sp = sentencepiece.SentencePieceProcessor(model_file=str(args.work / f'{name}.model'))
            others['sentencepiece'] = [None if i & 1 or '<user_tag>' in s else sp.encode(s) for i, s in enumerate(strings)]
        add('llama.cpp', by_llama, others, vocabulary=name, seed=seed)

    (DATA / 'cases.json').write_text('[\n' + ',\n'.join(json.dumps(c) for c in cases) + '\n]\n')


if __name__ == '__main__':
    main()
