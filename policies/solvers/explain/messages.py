"""Cores in words: the entries and properties that clash, and the counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policies.model.problem import Problem
from policies.solvers.interfaces import Cause, Clash, Core, Ground, Proof

SHOWN: Final = 12
"""Indices that one sentence names, at most."""


def name_indices(what: str, numbers: Sequence[int]) -> str:
    """Name indices: "entries 1, 2 and 4"."""
    plural = {"entry": "entries", "property": "properties"}[what]
    if not numbers:
        return f"no {what}"
    if len(numbers) == 1:
        return f"{what} {numbers[0]}"
    named = [str(n) for n in numbers[:SHOWN]]
    if len(numbers) > SHOWN:
        return f"{plural} {', '.join(named)} and {len(numbers) - SHOWN} more"
    return f"{plural} {', '.join(named[:-1])} and {named[-1]}"


def reason(problem: Problem, clash: Clash) -> str:
    """Return one clash as a sentence."""
    k = problem.n_adversaries
    entries = name_indices("entry", clash.entries)
    properties = name_indices("property", clash.properties)
    per, answers = clash.per_adversary, clash.answers
    adversaries = f"{k} adversaries" if k != 1 else "1 adversary"
    match clash.cause:
        case Cause.ALONE:
            sentence = f"{entries} alone discloses {properties} to whoever gets it"
        case Cause.COPIES:
            sentence = (
                f"{entries} must go to {answers} adversaries, more than may get it"
            )
        case Cause.CAPACITY:
            sentence = (
                f"{answers} copies must be given, capacities leave room for {per}"
            )
        case Cause.SET | Cause.CLASSES:
            sentence = (
                f"{properties}: {entries} make {answers} copies, of which one adversary "
                f"may get {per}; {adversaries} {'is' if k == 1 else 'are'} too few"
            )
        case Cause.COALITION:
            sentence = (
                f"{properties}: adversaries who pool hold {entries} between them, "
                "however they are spread"
            )
        case Cause.HISTORY:
            past = "are past their" if len(clash.properties) > 1 else "is past its"
            sentence = f"{properties} {past} limit by history alone: {entries}"
        case Cause.LIMIT:
            sentence = "no disclosure is below this tau: f is at least 0"
        case Cause.MEAN:
            whom = "to every adversary" if problem.aggregate is None else "in all"
            sentence = (
                f"{properties} with {entries}: no assignment keeps the disclosure "
                f"{whom} below tau"
            )
        case Cause.SEARCH:
            verb = "clashes" if len(clash.properties) == 1 else "clash"
            sentence = (
                f"{properties} {verb} over {entries}: every assignment to {adversaries} was "
                "ruled out"
            )
    return sentence


def sentences(problem: Problem, core: Core) -> list[str]:
    """Return all clashes of a core, and how many adversaries would suffice."""
    lines = [reason(problem, clash) for clash in core.clashes]
    if core.needed is None:
        return lines
    if core.needed == 1:
        return [*lines, "1 adversary is enough"]
    least = "are enough, and no fewer are" if core.exact else "would be enough"
    return [*lines, f"{core.needed} adversaries {least}"]


def certificate(problem: Problem, proof: Proof) -> str:
    """Return a proof that there is a plan as a sentence."""
    k = problem.n_adversaries
    match proof.ground:
        case Ground.ORDER:
            ground = f"{k} adversaries are enough, in whatever order copies are given"
        case Ground.EXPECTATION:
            ground = "copies drawn at random cross fewer than one limit on average"
        case Ground.LEMMA:
            ground = (
                "copies drawn at random cross no limit with some chance (local lemma)"
            )
    word = "component" if proof.components == 1 else "components"
    return (
        f"a plan exists for {name_indices('entry', proof.entries)} "
        f"({proof.components} {word}): {ground}"
    )
