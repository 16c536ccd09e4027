"""The generated strings of the tokenizer tests: the same ones as tokenizer_strings.h makes."""
import json
import pathlib

MASK = (1 << 64) - 1
TABLES = json.loads((pathlib.Path(__file__).parent.parent / 'data/tokenizer/strings.json').read_text(encoding='utf-8'))


class Random:
    """splitmix64"""

    def __init__(self, seed):
        self.state = seed & MASK

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % n

    def pick(self, items):
        return items[self.below(len(items))]

    def code_point(self, ranges):
        first, last = self.pick(ranges)
        return chr(first + self.below(last - first + 1))


def ascii_upper(text):
    return ''.join(chr(ord(c) - 32) if 'a' <= c <= 'z' else c for c in text)


def word(rng):
    text = rng.pick(TABLES['words'])
    style = rng.below(8)
    if style == 0:
        text = ascii_upper(text)
    if style == 1:
        text = ascii_upper(text[0]) + text[1:]
    return (' ' if rng.below(4) else '') + text


def letters(rng):
    return ''.join(chr(97 + rng.below(26)) for _ in range(1 + rng.below(8)))


def digits(rng):
    return ''.join(chr(48 + rng.below(10)) for _ in range(1 + rng.below(7)))


def script(rng):
    ranges = [rng.pick(TABLES['ranges'])]
    return ''.join(rng.code_point(ranges) for _ in range(1 + rng.below(4)))


def marked(rng):
    base = rng.code_point(TABLES['ranges'])
    return base + ''.join(rng.code_point(TABLES['marks']) for _ in range(1 + rng.below(2)))


def part(rng):
    kind = rng.below(20)
    if kind < 6:
        return word(rng)
    if kind < 7:
        return letters(rng)
    if kind < 8:
        return digits(rng)
    if kind < 10:
        return rng.pick(TABLES['punctuation'])
    if kind < 13:
        return rng.pick(TABLES['spaces'])
    if kind < 14:
        return rng.pick(TABLES['contractions'])
    if kind < 16:
        return script(rng)
    if kind < 17:
        return marked(rng)
    if kind < 19:
        return rng.pick(TABLES['snippets'])
    return rng.pick(TABLES['special'])


def string(seed, index):
    rng = Random(seed * 1000003 + index)
    return ''.join(part(rng) for _ in range(1 + rng.below(16)))


def ids_hash(lists):
    """FNV-1a, 64 bits, over each list's length and ids as little-endian 32-bit numbers."""
    h = 0xCBF29CE484222325
    for ids in lists:
        for number in (len(ids), *ids):
            for byte in number.to_bytes(4, 'little'):
                h = ((h ^ byte) * 0x100000001B3) & MASK
    return f'{h:016x}'
