"""The verifier's rate and memory on a large bundle of evidence.

``python -m benchmarks.verifier [EXPOSURES ...]`` writes bundles (default 100,000 and
1,000,000 exposures) under a temporary folder and verifies them, each in a process of its
own. The yardstick is a loop over the same files, also in a process of its own, that does
json.loads and sha256 a line, nothing else. Both run in turn, and the least CPU time of
each counts: what else a machine does then matters least. The verifier is to take at most
three times as long, within 256 MiB whatever the size.

A bundle takes 350 bytes an exposure and the verifier's own temporary file at most as
much again: 7 GB for 10,000,000 exposures, under TMPDIR. Bundles are written line by line,
so that making one takes no memory that grows with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

from dispatcher import verifier

NOTHING = hashlib.sha256().hexdigest()
COPIES = 3  # adversaries that are shown an entry
POLICY = """version = 1
name = "bench"
[budget]
t = 3
[entity.e]
key = "id"
subject = "s"
time = "t"
[entity.e.fields]
a = { answers = 1 }
b = { answers = 1 }
c = { answers = 1 }
[property.subject]
scope = "subject"
of = ["a", "b"]
[property.record]
of = ["a", "b", "c"]
disclosure = "linear"
"""
LOOP = """
import json, sys
from hashlib import sha256
from pathlib import Path
for name in ("keys.jsonl", "relations.jsonl", "ledger.jsonl"):
    with (Path(sys.argv[1]) / name).open("rb") as file:
        for raw in file:
            json.loads(raw)
            sha256(raw).hexdigest()
"""


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class Ledger:
    """Writes chains line by line, as the engine does."""

    def __init__(self, folder: Path) -> None:
        self.file = (folder / "ledger.jsonl").open("w", encoding="utf-8")
        self.heads: dict[str, tuple[int, str]] = {}

    def line(self, chain: str, kind: str, **members: object) -> str:
        seq, prev = self.heads.get(chain, (0, "0" * 64))
        seq += 1
        line = {
            "chain": chain,
            "kind": kind,
            "seq": seq,
            "prev": prev,
            "at": 1,
            **members,
        }
        text = canonical(line)
        digest = hashlib.sha256((prev + text).encode()).hexdigest()
        self.file.write(canonical(line | {"hash": digest}) + "\n")
        self.heads[chain] = seq, digest
        return prev

    def expose(self, chain: str, entry: str) -> None:
        seq, prev = self.heads[chain]
        ends = (  # the line without its hash
            f'{{"account":"w/{chain}","at":1,"cause":"served","chain":"{chain}",'
            f'"entry":"{entry}",',
            f'"kind":"exposure","policy":1,"prev":"{prev}","seq":{seq + 1}}}',
        )
        digest = hashlib.sha256((prev + "".join(ends)).encode()).hexdigest()
        self.file.write(f'{ends[0]}"hash":"{digest}",{ends[1]}\n')
        self.heads[chain] = seq + 1, digest

    def seal(self, grown: dict[str, int]) -> str:
        leaves = {chain: digest for chain, (_, digest) in self.heads.items()}
        root = verifier.merkle_root(leaves)
        self.line("system", "seal", heads=grown, root=root)
        return root


def write(folder: Path, exposures: int) -> None:
    """Write a bundle in which no limit is crossed."""
    entries = exposures // COPIES
    chains = [f"a{n:06}" for n in range(max(1_000, exposures // 1_000))]
    digest, ledger = hashlib.sha256(), Ledger(folder)
    with (folder / "keys.jsonl").open("wb") as file:
        for n in range(entries):
            record = n // 3
            raw = (
                f'{{"entry":"{n:032x}","field":"{"abc"[n % 3]}","record":"r{record:031x}",'
                f'"subject":"s{record // 4:031x}","time":{record + 1}}}\n'
            ).encode()
            digest.update(raw)
            file.write(raw)
    (folder / "relations.jsonl").touch()
    (folder / "policy-1.toml").write_text(POLICY)
    policy = hashlib.sha256(POLICY.encode()).hexdigest()
    ledger.line(
        "system",
        "keys",
        keys_count=entries,
        keys_sha256=digest.hexdigest(),
        facts_sha256=NOTHING,
        relations_count=0,
        relations_sha256=NOTHING,
    )
    digests = {"sha256": policy, "functions_sha256": NOTHING}
    ledger.line("system", "policy", version=1, accepted=[], **digests)
    for chain in chains:
        ledger.line(
            chain, "member", account=f"w/{chain}", groups=[], accepted=[], policy=1
        )
    grown: dict[str, int] = dict.fromkeys(chains, 1)
    every, seals = exposures // 20 + 1, 0
    for n in range(entries * COPIES):
        record, field = divmod(n % entries, 3)
        # no adversary is shown two entries of one subject, which has four records
        chain = chains[(record * 4 + field * 31 + n // entries * 331) % len(chains)]
        ledger.expose(chain, f"{n % entries:032x}")
        grown[chain] = ledger.heads[chain][0]
        if n % every == every - 1 or n == entries * COPIES - 1:
            root, seals, grown = ledger.seal(grown), seals + 1, {}
    ledger.file.close()
    counts = dict.fromkeys(("accepted", "joins", "links"), 0)
    counts |= {"accounts": len(chains), "adversaries": len(chains), "seals": seals}
    counts |= {"entries": entries, "exposures": entries * COPIES}
    first = {"share": "1/3", "chain": chains[0], "seq": 2}
    told = {
        "format": 1,
        "heads": {chain: digest for chain, (_, digest) in ledger.heads.items()},
        "seal": {"seq": ledger.heads["system"][0], "root": root},
        "policies": {"1": policy},
        "counts": counts,
        "joins": [],
        "not_checked": [],
        "worst": {"subject": {"share": "0"}, "record": first},
        "assumed": [],
        "engine": "bench",
        "time": 1,
    }
    (folder / "cert.json").write_text(canonical(told) + "\n")


def run(*command: str) -> tuple[float, int, str]:
    """Run a process: CPU seconds, peak resident KiB, first line of output."""
    read, out = os.pipe()
    child = os.posix_spawn(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, out, 1)]
    )
    os.close(out)
    with os.fdopen(read) as file:
        told = file.read().partition("\n")[0]
    _, status, used = os.wait4(child, 0)
    assert status == 0, told
    return used.ru_utime + used.ru_stime, used.ru_maxrss, told


def compare(folder: str, rounds: int) -> tuple[float, float, int]:
    """Run loop and verifier in turn: least CPU seconds of each, peak resident KiB."""
    loops, checks = [], []
    for _ in range(rounds):
        loops.append(run(sys.executable, "-c", LOOP, folder)[0])
        took, peak, told = run(sys.executable, verifier.__file__, folder)
        assert told.startswith("VERIFIED"), told
        checks.append((took, peak))
    return min(loops), min(took for took, _ in checks), max(peak for _, peak in checks)


def main(sizes: list[int]) -> None:
    for exposures in sizes:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), exposures)
            loop, took, peak = compare(name, max(1, min(3, 3_000_000 // exposures)))
        print(
            f"{exposures:,} exposures: {took:.1f} s, {exposures / took:,.0f}/s,"
            f" {took / loop:.2f} times the loop, peak {peak / 1024:.0f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [100_000, 1_000_000])
