"""``make bench``: every benchmark that needs nothing from outside, one after another."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    ["benchmarks.spine", "--scale"],
    ["benchmarks.gate"],
)

for words in BENCHMARKS:
    print(f"== {' '.join(words)}", flush=True)
    subprocess.run([sys.executable, "-m", *words], check=True)
