"""Summary of a plan in numbers and words, or why there is no plan.

Names of rules and fields, counts and ids; never a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final

import numpy as np

from dispatcher.core.errors import DispatcherError, Infeasible, Unfinished
from dispatcher.core.plurals import count
from dispatcher.stages.planning.translation import Translation
from policies.judging.certificates import safe_number
from policies.model.objective import Objective
from policies.model.problem import Problem
from policies.planning.cosines import worst_cosines
from policies.planning.solving import with_withholding_prices
from policies.planning.tabulated_disclosure import worst_disclosures
from policies.policy import Scope
from policies.solvers import Cause, Clash, Core, Limits, Solution, Verdict
from policies.solvers.explain.remedies import Remedy, enough, remedies
from policies.solvers.explain.withholding import cheapest
from policies.solvers.interfaces import free_bound

MOST_CLASHES: Final = 4  # most clashes in one message
NEEDS_WORK: Final = 0.5
"""Work for counting who is needed of each kind, as in :class:`Limits`."""

Summary = dict[str, Any]


def summary(made: Translation, solution: Solution) -> Summary:
    """Numbers of a plan, ready for JSON.

    Returns
    -------
    dict
        ``records``, ``fields``, ``answers`` wanted; ``adversaries``, and which of them
        have an account at a feed: ``feeds``; ``refused``: what the preflight keeps from
        the plan; ``sets``;
        ``safe_with``: active adversaries with whom no order of showings gets stuck;
        ``pairs`` planned; ``held`` and ``burnt`` fields; ``spare`` showings that t keeps
        in reserve for answers that do not come, and fields with ``no_spare``;
        ``utility`` and ``best``: of the plan, and without any limit; ``utility_by`` the
        user's function that says it; ``gap``: by how much of the proven bound the best
        plan of what is planned, with loads as even, could be worth more, at most, as a
        number in 0..1; ``worst``: the
        rule nearest to its limit, with f and the limit as exact fractions and ``share``
        as a number; ``complete`` sets; ``cores`` and ``tried`` where something has no
        plan.
    """
    backlog, judged = made.backlog, solution.judged
    open_ = backlog.missing > 0
    spare = np.maximum(backlog.room - backlog.missing, 0)
    utility, best = _utility(made.problem, solution)
    return {
        "records": len(np.unique(backlog.record[open_])),
        "fields": int(open_.sum()),
        "answers": int(backlog.missing.sum()),
        "adversaries": len(made.workforce),
        "feeds": int(made.workforce.feeds.sum()),
        "refused": [asdict(one) for one in made.workforce.clear.obstacles],
        "sets": made.problem.sets.n_sets,
        "safe_with": safe_number(made.problem, backlog.room),
        "pairs": len(solution.plan),
        "held": len(solution.held),
        "burnt": len(backlog.burnt),
        "spare": int(spare[open_].sum()),
        "no_spare": int((spare[open_] == 0).sum()),
        "utility": str(utility),
        "utility_by": made.utility and f"plugin:{made.utility}",
        "best": str(best),
        "gap": _gap(solution),
        "worst": worst(made, _reached(made, solution)) if judged else None,
        "complete": judged.complete if judged else 0,
        "past": judged.past if judged else 0,
        "cores": [core_in_words(made, core) for core in solution.cores],
        "certified": {str(p.ground): p.components for p in solution.proofs},
        "tried": list(solution.tried),
    }


def _utility(problem: Problem, solution: Solution) -> tuple[Fraction, Fraction]:
    """Return the plan's and the best utility; for a tradeoff without the cost of f."""
    goal, judged = problem.goal, solution.judged
    if goal.objective is not Objective.TRADEOFF or judged is None:
        return solution.value, free_bound(problem)
    return judged.u, free_bound(problem) - goal.lambda_ * goal.tau


def _gap(solution: Solution) -> float:
    """Return the distance of the plan's worth to the proven bound, as a share of it."""
    if not solution.bound:
        return 0.0
    return round(float((solution.bound - solution.value) / abs(solution.bound)), 6)


def digest(planned: Iterable[tuple[int, int, bytes]]) -> str:
    """Return a SHA-256 of who is shown what: equal for equal plans.

    ``planned`` has (account, adversary, packed entries). A draft is counted alone; when
    it is applied, with what it takes over of the plan before.
    """
    made = sha256()
    for account, _, entries in sorted(planned):
        made.update(f"{account} {len(entries)} ".encode() + entries)
    return made.hexdigest()


def worst(made: Translation, by_property: Sequence[Fraction]) -> Summary | None:
    """Return the rule whose worst f is nearest to its limit; None without limits."""
    shares = [
        (f / rule.tau, f, rule)
        for f, rule in zip(by_property, made.expansion.rules, strict=True)
        if rule.tau is not None
    ]
    if not shares:
        return None
    share, f, rule = max(shares, key=lambda s: s[0])
    return {
        "rule": rule.name,
        "f": str(f),
        "limit": str(rule.tau),
        "share": round(float(share), 4),
    }


def _reached(made: Translation, solution: Solution) -> list[Fraction]:
    """Return each rule's own worst f, not that of the sets that enforce its limit."""
    assert solution.judged is not None, "a plan was judged"
    found = list(solution.judged.by_property)
    for number, f in worst_disclosures(made, solution.plan).items():
        found[number] = f
    if made.loose is not None:
        rules = made.cosines
        held = solution.plan.union(made.problem.history)
        worst_of = worst_cosines(made.loose, rules, made.backlog, held)
        for rule, f in zip(rules, worst_of, strict=True):
            found[made.expansion.rules.index(rule)] = f
    return found


def core_in_words(made: Translation, core: Core) -> Summary:
    """Describe a core in words and numbers; workers and feeds count separately."""
    needs = _needs(made, core)
    return {
        "needed": None if needs is None else sum(needs.values()),
        "needs": needs,
        "exact": core.exact,
        "available": core.available,
        "repeats": core.repeats,
        "why": [_reason(made, core, clash) for clash in core.clashes[:MOST_CLASHES]],
    }


def lack(core: Summary) -> str:
    """Say how many workers would suffice."""
    if core["needs"] is None:
        return "no number of workers would do"
    parts = [count(number, kind) for kind, number in core["needs"].items()]
    return f"{' and '.join(parts)} needed"


def _present(made: Translation) -> dict[str, int]:
    """How many there are of each kind."""
    people = made.workforce
    return {"worker": int(people.workers.sum()), "feed": int(people.feeds.sum())}


def _kinds(made: Translation, entries: Iterable[int]) -> dict[str, list[int]]:
    """Entries that are owed something, by the kind of who gets them."""
    found: dict[str, list[int]] = {}
    for d in sorted(entries):
        if made.problem.lo[d]:
            kind = "feed" if made.backlog.published[d] else "worker"
            found.setdefault(kind, []).append(d)
    return found


def _needs(made: Translation, core: Core) -> dict[str, int] | None:
    """Return how many of each kind would suffice for a core; None: no number would.

    Nobody new is both: where a core is of both kinds, each kind is asked about alone.
    """
    if core.needed is None:
        return None
    kinds = _kinds(made, core.entries) or {"worker": []}
    there = _present(made)
    more = dict.fromkeys(kinds, core.needed - core.available)
    if len(kinds) > 1:
        rng, limits = np.random.default_rng(0), Limits(work=NEEDS_WORK)
        alone = {k: enough(_part(made, mine), rng, limits) for k, mine in kinds.items()}
        more = {k: (n or core.needed) - core.available for k, n in alone.items()}
        if not any(more.values()):  # only together do they clash
            more["worker"] = core.needed - core.available
    return {kind: there[kind] + more[kind] for kind in kinds if more[kind]}


def _reason(made: Translation, core: Core, clash: Clash) -> str:
    """One clash as a line: what is wanted, by which rule, how many workers."""
    rules = ", ".join(made.expansion.rules[p].name for p in clash.properties)
    answers = _answers(made, clash)
    names = " and ".join(f"{n} ({c})" for n, c in answers)
    where = _where(made, core, clash)
    ending = f" -> {clash.needed}" if clash.needed is not None else ""
    match clash.cause:
        case Cause.ALONE:
            field = answers[0][0] if answers else "a field"
            text = f"{field} alone reaches the limit of {rules} for whoever sees it"
        case Cause.COPIES:
            kind = _one_kind(made, clash)
            wanted = "answers" if kind == "worker" else "copies"
            if clash.needed is not None:  # who is of the other kind was counted in
                mine = _present(made)[kind] + clash.needed - len(made.workforce)
                ending = f" -> {mine}"
            text = f"{where}{names}: more {wanted} than {kind}s may see it{ending}"
        case Cause.CAPACITY:
            text = (
                f"{clash.answers} answers are wanted, and all capacities together "
                f"leave room for {clash.per_adversary}"
            )
        case Cause.SET | Cause.CLASSES if clash.per_adversary == 1:
            kind = _one_kind(made, clash)
            text = f"{where}{names} may not share a {kind} ({rules}){ending}"
        case Cause.SET | Cause.CLASSES:
            text = (
                f"{where}{names} want {clash.answers} showings, and {rules} lets one "
                f"{_one_kind(made, clash)} see {clash.per_adversary} of them{ending}"
            )
        case Cause.SEARCH:
            text = f"{where}{rules} clash together (every assignment was searched)"
        case Cause.HISTORY | Cause.LIMIT | Cause.COALITION | Cause.MEAN:
            text = f"{where}{rules}: no plan can stay below the limit"
    return text


def _one_kind(made: Translation, clash: Clash) -> str:
    """Name who may not see all of a clash."""
    return "feed" if list(_kinds(made, clash.entries)) == ["feed"] else "worker"


def _answers(made: Translation, clash: Clash) -> list[tuple[str, str]]:
    """Fields of a clash with what is wanted of them."""
    entries = np.array(clash.entries, np.int64)
    copies = made.problem.lo[entries]
    found = Counter(
        (made.fields[int(k)], int(c), "copy" if at_feeds else "answer")
        for k, c, at_feeds in zip(
            made.kind[entries], copies, made.backlog.published[entries], strict=True
        )
    )
    many = {"copy": "copies", "answer": "answers"}
    return [
        (name, count(c, one, many[one]) if n == 1 else f"{n} x {c} {many[one]}")
        for (name, c, one), n in found.items()
    ]


def _where(made: Translation, core: Core, clash: Clash) -> str:
    """How many units are like it."""
    if not clash.properties:
        return ""
    scope = made.expansion.rules[clash.properties[0]].scope
    words = {Scope.RECORD: "record", Scope.SUBJECT: "subject", Scope.RELATION: "link"}
    word = words[scope]
    if core.repeats == 1:
        return f"1 {word}: "
    return f"{core.repeats} {word}s alike: "


def refusal(
    made: Translation, solution: Solution, rng: np.random.Generator, limits: Limits
) -> DispatcherError:
    """Make the error for a backlog that cannot be planned whole."""
    held, k = len(solution.held), len(made.workforce)
    core = solution.core
    if solution.verdict in (Verdict.UNKNOWN, Verdict.CERTIFIED) or core is None:
        known = solution.verdict is Verdict.CERTIFIED
        rest = (
            "though it is proven that there is one"
            if known
            else "and no proof that there is none"
        )
        return Unfinished(
            f"{count(held, 'field has', 'fields have')} no plan yet, {rest}",
            why="; ".join(solution.tried) or "the search ended early",
            fix=f"Give more time (--time-limit){_rest(solution)}.",
            facts={"held": held, "adversaries": k},
        )
    words = core_in_words(made, core)
    why = "\n".join([*words["why"], *_beside(made)])
    facts = {"held": held, "adversaries": k, "needed": words["needed"] or 0}
    if words["needs"] is None:
        return Infeasible(
            f"no plan meets the policy: {count(held, 'field')} cannot be shown",
            why=why,
            fix=_mend(core, _withholding(made, core, rng, limits), _rest(solution)),
            facts=facts,
        )
    there = count(k, "adversary", "adversaries")
    amount = f"{words['needed']} {'are needed' if core.exact else 'would do'}"
    if made.workforce.feeds.any() or "feed" in words["needs"]:
        there = " and ".join(count(n, kind) for kind, n in _present(made).items())
        amount = lack(words)
    fixes = _fixes(made, core, words["needs"], rng, limits)
    return Infeasible(
        f"no plan meets the policy with {there}; {amount}",
        why=why,
        fix=", or ".join(fixes) + f"{_rest(solution)}.",
        facts=facts,
    )


def _beside(made: Translation) -> Iterator[str]:
    """Name who is left out, and mention that a new plan of all might exist."""
    yield from map(str, made.workforce.clear.obstacles)
    if made.backlog.left:
        yield "(what the plan in force still means to show stays with whom it is)"


def _rest(solution: Solution) -> str:
    """Advise to plan the remainder, if there is a partial plan."""
    return ", or plan the rest with --partial" if len(solution.plan) else ""


def _mend(core: Core, leaving: str, rest: str) -> str:
    """Return the fix if no number of workers would suffice."""
    if core.clashes[0].cause is Cause.CAPACITY:
        return f"Register more workers, or raise [capacity] total{rest}."
    return (
        "Set send = false on the field, split it into smaller crops, or trust a group "
        f"with the rule{leaving}{rest}."
    )


def _fixes(
    made: Translation,
    core: Core,
    needs: dict[str, int],
    rng: np.random.Generator,
    limits: Limits,
) -> Iterator[str]:
    """List possible fixes: workers, feeds, answers, limits, or leaving these out."""
    there = _present(made)
    for kind, number in needs.items():
        more = count(number - there[kind], f"more {kind}")
        own = ", each a connector of its own" if kind == "feed" else ""
        yield f"Register {more} ({number}{own})"
    for remedy in remedies(made.problem, core, rng, limits.part(0.2)):
        yield _remedy(made, remedy)
    leaving = _withholding(made, core, rng, limits)
    if leaving:
        yield leaving.removeprefix(", or ")


def _withholding(
    made: Translation, core: Core, rng: np.random.Generator, limits: Limits
) -> str:
    """Describe the cheapest entries to withhold, by the value of their answers."""
    if core.clashes and core.clashes[0].cause is Cause.CAPACITY:
        return ""
    least = cheapest(_priced(made, core), rng, limits.part(0.2))
    if least is None or not least.entries:
        return ""
    entries = np.array(core.entries, np.int64)[list(least.entries)]
    counted = Counter(made.fields[int(k)] for k in made.kind[entries])
    names = " and ".join(f"{n} x {f}" if n > 1 else f for f, n in counted.items())
    each = " in each" if core.repeats > 1 else ""
    sure = "the cheapest" if least.proven else "the cheapest found"
    return f", or withhold {names}{each} ({sure})"


def _part(made: Translation, which: Iterable[int]) -> Problem:
    """Return the part over some entries, and the sets that lie within them."""
    problem, entries = made.problem, np.array(sorted(which), np.int64)
    sets = problem.sets
    inside = np.zeros(problem.n_entries, np.bool_)
    inside[entries] = True
    outside = np.bincount(
        sets.member_set[~inside[sets.entry]], minlength=sets.n_sets
    ).astype(np.bool_)
    chosen = np.flatnonzero(~outside & (np.diff(sets.start) > 0))
    part = problem.select(entries, chosen)
    return replace(part, capacity=None, averages=(), links=None, prices=None)


def _priced(made: Translation, core: Core) -> Problem:
    """Return the core's part as a problem that says what withholding costs."""
    return with_withholding_prices(_part(made, core.entries))


def _remedy(made: Translation, remedy: Remedy) -> str:
    """Describe a change of the policy."""
    if remedy.kind == "limit":
        name = made.expansion.rules[remedy.property].name
        above = f"{float(remedy.above):.4g}"
        return f"raise the tau of {name} above {above} ({remedy.needed} needed)"
    kinds = dict.fromkeys(made.fields[int(made.kind[d])] for d in remedy.entries)
    names = " and ".join(kinds)
    return f"set answers = {remedy.answers} for {names} ({remedy.needed} needed)"
