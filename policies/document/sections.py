"""Reading the smaller tables: budget, relations, workers, utilities and capacities."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from typing import Final

from policies.document.diagnostic import shown
from policies.document.reading import (
    Reader,
    exact_number,
    is_unclosed,
    report_bad_glob,
    report_conflict,
    report_missing_column,
    report_no_effect,
    report_unknown_field,
    report_unknown_rule,
)
from policies.model.objective import Objective
from policies.policy import (
    Budget,
    Capacity,
    Entity,
    Group,
    Relation,
    UtilityRow,
)

BUDGET_KEYS: Final = ("objective", "tau", "average", "t", "lambda", "utility")
PLUGIN: Final = "plugin:"
CAPACITY_KEYS: Final = ("total", "open", "per_day", "per_hour")
FACT_NAMES: Final = ("subject", "vector", "count", "time")


def read_budget(root: Reader) -> Budget:
    """Read ``[budget]``; a tau that is not above 0 is kept for POL201."""
    reader = root.inner("budget", "the budget table")
    reader.knows(BUDGET_KEYS)
    word = reader.word("objective", tuple(Objective), "the budget")
    objective = Objective(word) if word else Objective.DISC_BUDGET
    tau = read_tau(reader, objective) if "tau" in reader else Fraction(1)
    weight = reader.number("lambda", "a number of at least 0", Fraction(0))
    sound = word is not None or "objective" not in reader
    if "lambda" in reader and sound and objective is not Objective.TRADEOFF:
        report_no_effect(
            reader,
            "lambda",
            "`lambda` is the weight in u + lambda*(tau - f), used only by "
            'objective = "tradeoff"',
            'delete the line, or set objective = "tradeoff"',
        )
    return Budget(
        objective=objective,
        tau=tau,
        average=reader.share("average"),
        t=reader.integer("t"),
        lambda_=Fraction(1) if weight is None else weight,
        utility=_user_utility(reader),
    )


def _user_utility(reader: Reader) -> str | None:
    """Read the name of the user's utility."""
    word = reader.text("utility")
    if word is None:
        return None
    if not word.startswith(PLUGIN) or word == PLUGIN:
        reader.wrong("utility", '"plugin:NAME", a utility of an installed package')
        return None
    return word.removeprefix(PLUGIN)


def read_tau(reader: Reader, objective: Objective) -> Fraction | None:
    """Read a limit; None for "none", and 1 if it was wrong."""
    value = reader.values["tau"]
    if value == "none":
        if objective is not Objective.TRADEOFF:
            reader.findings.error(
                "POL209",
                reader.value_span("tau"),
                'tau = "none" needs the tradeoff',
                'without a limit and without objective = "tradeoff" nothing keeps '
                "disclosure down",
                'write a number, or set objective = "tradeoff"',
            )
        return None
    number = exact_number(value)
    if number is None or number > 1:
        reader.wrong("tau", 'a number above 0 and at most 1, or "none"')
        return Fraction(1)
    return number


def read_relations(root: Reader, entity: Entity) -> dict[str, Relation]:
    """Read ``[relation.NAME]``."""
    relations = {}
    for name, reader in root.named("relation", "a relation table"):
        reader.knows(("source", "ends"))
        if name in FACT_NAMES:
            root.findings.error(
                "POL003",
                reader.table_span(),
                f"a relation cannot be called `{name}`",
                f"the facts of a test use {', '.join(FACT_NAMES)} for themselves",
                "choose another name",
            )
        source = reader.needed_text("source", 'add source = "<file>.csv"')
        if "ends" not in reader:
            reader.missing("ends", 'add ends = ["<column>", "<column>"]')
        ends = reader.texts("ends")
        if "ends" in reader and len(ends) != 2:
            if (
                isinstance(reader.values["ends"], list)
                and len(reader.values["ends"]) != 2
            ):
                reader.wrong("ends", "two columns of the file")
        elif source and ends:
            relations[name] = Relation(name, source, (ends[0], ends[1]))
    if relations and entity.key and entity.subject is None:
        name = next(iter(relations))
        report_missing_column(
            root, ("relation", name), entity, "both ends of a link are subjects"
        )
    return relations


def read_groups(root: Reader, rules: Collection[str]) -> dict[str, Group]:
    """Read ``[workers.groups.NAME]``.

    Parameters
    ----------
    rules : collection of str
        Names of the properties, for ``trusted`` (POL105).
    """
    workers = root.inner("workers", "the workers table")
    workers.knows(("groups",))
    groups = {}
    for name, reader in workers.named("groups", "a group table"):
        reader.knows(("members", "trusted"))
        if "members" not in reader:
            reader.missing("members", 'add members = ["<connector>/<account>"]')
        members = reader.texts("members")
        for number, glob in enumerate(members):
            if is_unclosed(glob):
                report_bad_glob(reader, "members", number)
        trusted = reader.texts("trusted", least=0)
        for rule in trusted:
            if rule not in rules:
                at = reader.values["trusted"].index(rule)
                report_unknown_rule(
                    reader, reader.value_span("trusted", at), rule, rules
                )
        groups[name] = Group(name, members, trusted)
    return groups


def read_utilities(root: Reader, entity: Entity) -> tuple[UtilityRow, ...]:
    """Read ``[[utility]]``."""
    return tuple(_utility_row(r, entity) for r in root.rows("utility", "a utility row"))


def _utility_row(reader: Reader, entity: Entity) -> UtilityRow:
    reader.knows(("worker", "field", "where", "weight", "from"))
    worker = reader.text("worker")
    if worker is not None and is_unclosed(worker):
        report_bad_glob(reader, "worker")
    one = isinstance(reader.values.get("field"), str)
    name = reader.text("field") if one else None
    fields = (name,) if name else () if one else reader.texts("field")
    for number, field in enumerate(fields):
        if field not in entity.fields:
            span = reader.value_span("field", *(() if one else (number,)))
            report_unknown_field(reader, span, "a utility row", field, entity.fields)
    weight = reader.number("weight", "a number of at least 0", Fraction(0))
    from_ = reader.word("from", ("quality",), "a utility row")
    if "weight" in reader and "from" in reader:
        report_conflict(
            reader, "from", "weight", "a row says what a showing is worth one way"
        )
    elif "weight" not in reader and "from" not in reader:
        reader.missing("weight", 'add weight = 1.5, or from = "quality"')
    return UtilityRow(worker or "*", fields, _where(reader), weight, from_)


def _where(reader: Reader) -> dict[str, str]:
    where = {}
    for column, value in reader.inner("where", "a where table").values.items():
        if isinstance(value, str) or (
            isinstance(value, int) and not isinstance(value, bool)
        ):
            where[column] = str(value)
        else:
            reader.wrong("where", "a text, as it stands in the column", column)
    return where


def read_capacities(root: Reader) -> tuple[Capacity, ...]:
    """Read ``[capacity]``: rows by glob; ``default`` stands for all others."""
    capacities = []
    outer = root.inner("capacity", "a table of globs, `GLOB = { total = 10 }`")
    for glob in outer.values:
        reader = outer.inner(glob, "a capacity row")
        reader.knows(CAPACITY_KEYS)
        if not glob or is_unclosed(glob):
            root.findings.error(
                "POL003",
                outer.key_span(glob),
                f"`{shown(glob)}` is no glob of accounts",
                "expected a text that is not empty, without an unclosed `[`",
                'write "default", or a glob like "mturk/*"',
            )
        limits = {key: reader.integer(key) for key in CAPACITY_KEYS}
        capacities.append(Capacity(glob, **limits))
    return tuple(capacities)
