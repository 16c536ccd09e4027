#!/usr/bin/env python3
"""What a budget of weights costs: CPU time a token, on a device that computes on the CPU, and bytes that are uploaded anew.

usage: budget.py GULL TOKENS MODEL…     TOKENS: how many more the long run makes; small models need more
Each figure is the difference between a long and a short run, so that loading and compiling do not count.
"""
import json
import re
import resource
import subprocess
import sys

SHORT, REPETITIONS = 2, 2   # tokens; `gull bench --reps 1` makes them twice
UNITS = {"B": 2**-20, "KiB": 2**-10, "MiB": 1, "GiB": 2**10}


def run(gull, model, tokens, budget):
    """CPU seconds, MiB uploaded under the budget, and what the program says."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([gull, "bench", model, "-p", "0", "-n", str(tokens), "--reps", "1", "--json", "--verbose", "--gpu-budget", str(budget)],
                          capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    uploads = re.search(r"uploads of ([\d.]+) (\w+)", done.stderr)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            float(uploads[1]) * UNITS[uploads[2]] if uploads else 0, json.loads(done.stdout))


def measure(gull, model, more, budget):
    (short, few, _), (long, many, said) = run(gull, model, SHORT, budget), run(gull, model, SHORT + more, budget)
    tokens = more * REPETITIONS
    return (long - short) / tokens * 1000, (many - few) / tokens, said["gpu_memory"]["weights"]


gull, more = sys.argv[1], int(sys.argv[2])
for model in sys.argv[3:]:
    whole, _, weights = measure(gull, model, more, 0)
    print(f"{model}: {weights} bytes of weights, {whole:.1f} ms a token")
    for percent in (50, 25, 10):
        ms, uploaded, _ = measure(gull, model, more, weights * percent // 100)
        print(f"  {percent} %: {ms:.1f} ms a token ({ms / whole:.2f}), {uploaded:.2f} MiB uploaded for each")
