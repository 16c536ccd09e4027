#!/usr/bin/env python3
"""Writes tests/data/grammar/regex_cases.json: random grammars without recursion, each also as a regular expression, and for
random texts whether Python's `regex` module matches them as a whole ("yes"), could with more text ("begun"), or not ("no").

Needs the package regex (pip install regex). The seed is fixed.
"""
import json
import random
from pathlib import Path

import regex

RANDOM = random.Random(20250301)
ALPHABET = "abcé🙂"


def expression(depth):
    """A pair (GBNF, regular expression)."""
    kind = RANDOM.random()
    if depth == 0 or kind < 0.3:
        text = "".join(RANDOM.choice(ALPHABET) for _ in range(RANDOM.randint(1, 2)))
        return f'"{text}"', f"(?:{text})"
    if kind < 0.45:
        chosen = sorted(RANDOM.sample(ALPHABET, RANDOM.randint(1, 3)))
        body = ("^" if RANDOM.random() < 0.3 else "") + "".join(chosen)
        return f"[{body}]", f"[{body}]"
    if kind < 0.5:
        return ".", "(?s:.)"
    if kind < 0.7:
        parts = [expression(depth - 1) for _ in range(RANDOM.randint(1, 3))]
        return "(" + " ".join(p[0] for p in parts) + ")", "(?:" + "".join(p[1] for p in parts) + ")"
    if kind < 0.85:
        parts = [expression(depth - 1) for _ in range(RANDOM.randint(2, 3))]
        if RANDOM.random() < 0.2:
            parts.append(('""', ""))
        return "(" + " | ".join(p[0] for p in parts) + ")", "(?:" + "|".join(p[1] for p in parts) + ")"
    inner = expression(depth - 1)
    low = RANDOM.randint(0, 2)
    count = RANDOM.choice(["*", "+", "?", f"{{{low}}}", f"{{{low},}}", f"{{{low},{low + RANDOM.randint(0, 2)}}}"])
    return f"({inner[0]}){count}", f"(?:{inner[1]}){count}"


def verdict(pattern, text):
    match = pattern.fullmatch(text, partial=True)
    if match is None:
        return "no"
    return "yes" if pattern.fullmatch(text) else "begun"


def main():
    cases = []
    while len(cases) < 200:
        # Some of it goes through rules, so that calls are tested too.
        gbnf, pattern = expression(4)
        parts = [expression(3) for _ in range(2)]
        gbnf = f"root ::= {gbnf} one two one\none ::= {parts[0][0]}\ntwo ::= {parts[1][0]}\n"
        pattern = regex.compile(f"{pattern}{parts[0][1]}{parts[1][1]}{parts[0][1]}")
        texts = {"".join(RANDOM.choice(ALPHABET) for _ in range(RANDOM.randint(0, 8))) for _ in range(60)}
        judged = {t: verdict(pattern, t) for t in sorted(texts)}
        # Prefer what is accepted: grow good texts by one character each.
        for _ in range(60):
            good = [t for t, v in judged.items() if v != "no"]
            if not good:
                break
            t = RANDOM.choice(good) + RANDOM.choice(ALPHABET)
            judged[t] = verdict(pattern, t)
        kept = {v: RANDOM.sample(ts, min(6, len(ts))) for v in ("yes", "begun", "no") if (ts := sorted(t for t, w in judged.items() if w == v))}
        if len(kept) == 3:
            cases.append({"gbnf": gbnf, **kept})
    out = Path(__file__).parent.parent / "data" / "grammar" / "regex_cases.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
    print(len(cases), "grammars")


if __name__ == "__main__":
    main()
