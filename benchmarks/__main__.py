"""``make bench``: every benchmark that needs nothing from outside, one after another."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    ["benchmarks.spine", "--scale"],
    ["benchmarks.gate"],
    ["benchmarks.store"],
    ["benchmarks.shipping"],
    ["benchmarks.kernels"],
    ["benchmarks.greedy", "--scale"],
)

failed = []
for words in BENCHMARKS:
    print(f"== {' '.join(words)}", flush=True)
    if subprocess.run([sys.executable, "-m", *words], check=False).returncode:
        failed.append(words[0])
print(f"== limits not kept: {', '.join(failed)}" if failed else "== all limits hold")
sys.exit(1 if failed else 0)
