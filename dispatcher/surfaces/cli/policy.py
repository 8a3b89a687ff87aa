"""``dispatcher policy``: check, test, show and apply the policy file."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.core.errors import (
    EXIT_FAILED,
    EXIT_FINDINGS,
    EXIT_INVALID,
    Usage,
)
from dispatcher.core.plurals import count
from dispatcher.core.private_files import write_private
from dispatcher.surfaces.cli import previews
from dispatcher.surfaces.cli.context import (
    DRY_RUN,
    AcceptPast,
    CliContext,
    DryRun,
    ExitCode,
    Output,
    Reason,
    TimeLimit,
    leave,
    read_file,
    told_moment,
    zulu,
)
from dispatcher.surfaces.cli.records import (
    DelimiterOption,
    EncodingOption,
    FormatOption,
    KeyOption,
    SheetOption,
    profile_document,
    profile_lines,
    read_options,
)
from policies.document.diagnostic import listed

if TYPE_CHECKING:
    from dispatcher.ledger.versions import AppliedPolicy
    from dispatcher.operations.pictures import Picture, SeenFields
    from dispatcher.operations.policies import PolicyFile, PolicyPreview
    from dispatcher.stages.planning.impact import Impact
    from policies.document import ParseResult

SEARCH: Final = 30.0
"""Seconds that a preview searches for a plan."""

app = typer.Typer(help="Check, test and apply the policy file.", no_args_is_help=True)

File = Annotated[
    Path | None,
    typer.Argument(dir_okay=False, help="A policy file (default: policy.toml)."),
]

Files = Annotated[
    list[Path] | None, typer.Argument(help="Policy files (default: policy.toml).")
]


AgainstOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Records: what they show under the policy.",
    ),
]


class DiagnosticFormat(StrEnum):
    """How diagnostics are written."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


@app.command()
def check(
    ctx: typer.Context,
    files: Files = None,
    format: Annotated[
        DiagnosticFormat, typer.Option("--format")
    ] = DiagnosticFormat.FULL,
    strict: Annotated[bool, typer.Option(help="Raise doubts too.")] = False,
    against: AgainstOption = None,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit 0 whatever was found.")
    ] = False,
) -> None:
    """Check policy files; exit 5 if one is invalid."""
    from policies.document import render_files, summary

    context: CliContext = ctx.obj
    results = [
        parse_policy(path, strict=strict) for path in policy_paths(context, files)
    ]
    if against is not None:
        results = _against(results, against)
    form = "json" if context.json else format.value
    sys.stdout.write(
        render_files([(r.filename, r.text, r.diagnostics) for r in results], form)
    )
    if form == "full":
        for result in results:
            print(summary(result.filename, result.diagnostics))
    if any(result.errors for result in results) and not exit_zero:
        leave(EXIT_INVALID)


@app.command("test")
def run_tests(
    ctx: typer.Context,
    files: Files = None,
    name: Annotated[
        str | None, typer.Option("-k", help="Only tests whose name contains this.")
    ] = None,
) -> None:
    """Run a policy's own tests; exit 1 if one fails, 5 if a file is invalid."""
    from policies.document import run_test

    context: CliContext = ctx.obj
    results = [parse_policy(path) for path in policy_paths(context, files)]
    stop_if_invalid(results)
    lines: list[str] = []
    outcomes: list[dict[str, object]] = []
    for result in results:
        assert result.policy is not None
        for case in result.policy.tests:
            if name is None or name in case.name:
                outcome = run_test(result.policy, case)
                lines.append(outcome.line(result.filename))
                outcomes.append(
                    {
                        "file": result.filename,
                        "test": case.name,
                        "passed": outcome.passed,
                    }
                )
    context.show(
        {"schema": "dispatcher.policy-tests/1", "tests": outcomes}, "\n".join(lines)
    )
    if not outcomes:
        context.say("no test was run: none is in the file, or -k fits none")
    if not all(one["passed"] for one in outcomes):
        leave(EXIT_FAILED)


@app.command("ask")
def ask_policy(
    ctx: typer.Context,
    following: Annotated[
        str,
        typer.Option("--next", metavar="FIELD", help="The field that is asked for."),
    ],
    file: File = None,
    seen: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD[,FIELD...]",
            help="Fields that were seen already; repeatable.",
        ),
    ] = None,
) -> None:
    """Ask whether someone who has seen fields of a record may see one more.

    Asked for a worker of no group; as in a [[test]], only tau is judged.
    """
    from dispatcher.operations import policies

    context: CliContext = ctx.obj
    path = file or context.policy_path
    checked = valid_policy(path)
    names = policies.split_names(seen or (), checked.policy.entity.fields)
    outcome = policies.ask(checked, names, following.strip())
    rules = [
        policies.refused_words(checked.policy, refusal, names, following.strip())
        for refusal in outcome.refusals
    ]
    answer = "yes" if outcome.allowed else f"no: {'; '.join(rules)}"
    if outcome.unjudged:
        answer += f" (not judged: {listed(outcome.unjudged, 8)}, which need data)"
    context.show(
        {
            "schema": "dispatcher.policy-answer/1",
            "seen": names,
            "next": following.strip(),
            "allowed": outcome.allowed,
            "refused_by": [refusal.property for refusal in outcome.refusals],
            "not_judged": list(outcome.unjudged),
        },
        answer,
    )


@app.command()
def show(
    ctx: typer.Context,
    number: Annotated[
        int | None,
        typer.Argument(min=1, max=2**31, help="A version (default: in force)."),
    ] = None,
) -> None:
    """Print the policy that is in force, or a version before, byte for byte."""
    from dispatcher.operations import policies

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = policies.show(store, number)
    source = found.source.decode("utf-8")
    document = {
        "schema": "dispatcher.policy/1",
        "version": found.version,
        "sha256": found.sha256,
        "applied_at": found.applied_at,
        "source": source,
    }
    context.show(document, source, end="")


@app.command()
def suggest(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="A file of records, or a folder of scans.")
    ],
    output: Output = None,
    format: FormatOption = None,
    encoding: EncodingOption = None,
    delimiter: DelimiterOption = None,
    sheet: SheetOption = None,
    key: KeyOption = None,
    feed: Annotated[
        bool,
        typer.Option(
            "--feed", help="Fields are sent to receivers, and nobody is asked."
        ),
    ] = False,
    ask: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN[,COLUMN...]",
            help="Only these columns are sent, and asked unless --feed; repeatable. "
            "(default: all that do not say alone who somebody is)",
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Draft a first policy from what a file of records tells; no value is written.

    Each rule says why it is there: whom a combination singles out, or what a column is.
    Names, addresses and numbers of people have send = false unless --ask names them.
    """
    from dispatcher.operations import discovery
    from dispatcher.operations.layouts import keep_boxes

    context: CliContext = ctx.obj
    path = output or context.policy_path
    options = read_options(format, encoding, delimiter, sheet, key)
    drafted = discovery.suggest(file, options, feed=feed, ask=ask or ())
    before = read_policy(path).decode(errors="replace") if path.exists() else ""
    text, boxes = keep_boxes(before, drafted.text, path.name)
    if boxes:
        context.say(f"{count(boxes, 'drawn box', 'drawn boxes')} of {path} kept")
    if dry_run:
        context.say(f"{DRY_RUN}: {path} would be written")
        document = {"schema": "dispatcher.policy-draft/1", "text": text}
        context.show(document, text)
        return
    if path.exists():
        context.confirm(f"{path} is here already; overwrite it?")
    write_private(path, text)
    measured = drafted.profile
    context.show(
        {
            "schema": "dispatcher.policy-suggestion/1",
            "file": str(path),
            "kept_apart": drafted.kept_apart,
            "withheld": list(drafted.withheld),
            "measured": profile_document(measured),
        },
        "",
    )
    for line in profile_lines(measured):
        context.say(line)
    if drafted.extra:
        context.say(
            "combinations of four and more columns were not searched: "
            f"pip install 'sparsi-dispatcher[{drafted.extra}]'"
        )
    if not drafted.kept_apart and not drafted.pages:
        context.say(
            "WARN no rule is suggested: nothing in the file looks as if it were about "
            "people, and every worker may see every field"
        )
    if drafted.withheld and not feed:
        why = (
            "not asked for" if ask else "they say alone who somebody is, or name people"
        )
        context.say(
            f"shown to nobody ({why}): {'; '.join(drafted.withheld)}; to send and ask "
            "some columns only, these too: --ask COLUMN[,COLUMN...]"
        )
    kept = f"wrote {path}: {count(drafted.kept_apart, 'combination')} kept apart"
    check = f"dispatcher policy check {path} --against {file}"
    if drafted.pages:
        folder = file if file.is_dir() else file.parent
        context.say(
            f"{kept}; whole pages are shown to nobody: draw a box around each field that "
            f"is to be read, and write rules: dispatcher layout draw {folder}, then: {check}"
        )
    else:
        context.say(f"{kept}; go through it, then: {check}")
    if feed:
        context.say(
            "a receiver to try it with is a folder: write [connectors.pickup] and "
            'path = "pickup" into dispatcher.toml, then: dispatcher policy apply, '
            f"workers add pickup/receiver, records load {file}, up"
        )


def policy_paths(context: CliContext, files: list[Path] | None) -> list[Path]:
    """Return the files named, or the policy file of the directory."""
    return files or [context.policy_path]


def read_policy(path: Path) -> bytes:
    """Read a policy file.

    Raises
    ------
    Invalid
        It cannot be read.
    """
    fix = "name another file, or write one: dispatcher init"
    return read_file(path, what="policy file", fix=fix)


def parse_policy(path: Path, *, strict: bool = False) -> ParseResult:
    """Read and parse a policy file."""
    from policies.document import parse

    return parse(read_policy(path), str(path), strict=strict)


def _against(results: list[ParseResult], source: Path) -> list[ParseResult]:
    from dispatcher.operations import discovery

    return discovery.check_results(results, source)


def valid_policy(path: Path) -> PolicyFile:
    """Return a policy file; say what is wrong and end if it is invalid."""
    from dispatcher.operations.policies import PolicyFile
    from policies.document import parse

    source = read_policy(path)
    result = parse(source, str(path))
    stop_if_invalid([result])
    assert result.policy is not None
    return PolicyFile(path, source, result.policy)


def stop_if_invalid(results: list[ParseResult]) -> None:
    """Say what is wrong with files, and end the command with exit status 5."""
    from policies.document import render_files, summary

    bad = [result for result in results if result.errors]
    if bad:
        sys.stderr.write(
            render_files([(r.filename, r.text, r.diagnostics) for r in bad])
        )
        for result in bad:
            print(summary(result.filename, result.diagnostics), file=sys.stderr)
        leave(EXIT_INVALID)


IfActive = Annotated[
    str | None,
    typer.Option(metavar="V", help="Only if version V is in force now (0: none)."),
]


class InFlight(StrEnum):
    """What becomes of open tasks that a new version would not allow."""

    RECALL = "recall"
    DRAIN = "drain"
    KEEP = "keep"


Flight = Annotated[
    InFlight,
    typer.Option(
        help="Open tasks that the version would not allow: take all of them back, those "
        "that have not left yet, or none."
    ),
]


@app.command()
def diff(
    ctx: typer.Context,
    file: File = None,
    base: Annotated[
        int | None,
        typer.Option(min=1, max=2**31, help="A version (default: the one in force)."),
    ] = None,
    exit_code: ExitCode = False,
) -> None:
    """Show what a policy file says otherwise than the version in force."""
    from dispatcher.operations import policies

    context: CliContext = ctx.obj
    path = file or context.policy_path
    policy = valid_policy(path).policy
    with context.open_store() as store:
        comparison = policies.compare(store, policy, base)
    number, found = comparison.against, comparison.differences
    context.say(f"{path} against {f'version {number}' if number else 'no version'}")
    context.show(
        {
            "schema": "dispatcher.policy-diff/1",
            "against": number,
            "differences": [
                {
                    "sign": one.sign,
                    "part": one.part,
                    "name": one.name,
                    "changes": list(one.changes),
                    "looser": one.looser,
                }
                for one in found
            ],
        },
        "\n".join(one.line for one in found),
    )
    if not found:
        context.say("they say the same")
    elif exit_code:
        leave(EXIT_FINDINGS)


@app.command()
def apply(
    ctx: typer.Context,
    file: File = None,
    if_active: IfActive = None,
    in_flight: Flight = InFlight.RECALL,
    accept_past: AcceptPast = 0,
    reason: Reason = "",
    against: AgainstOption = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Apply an unchanged example as it is.")
    ] = False,
    dry_run: DryRun = False,
    breaches: Annotated[
        bool,
        typer.Option(
            "--breaches", help="With --dry-run: list what is past the new limits."
        ),
    ] = False,
    time_limit: TimeLimit = None,
    exit_code: ExitCode = False,
) -> None:
    """Put a policy file in force, after its checks and its tests.

    What was shown already and is past a limit of the version cannot be undone: then
    nothing changes and the exit status is 6, unless --accept-past says just how many
    sets that are and --reason why.

    With --dry-run it says what the version would do: the version is put in force in a
    transaction that is rolled back, and a plan is searched (--time-limit). Bookings
    wait for the first, not for the second.
    """
    from dispatcher.operations import policies

    context: CliContext = ctx.obj
    checked = valid_policy(file or context.policy_path)
    if dry_run:
        _preview(context, checked, in_flight, breaches, time_limit, exit_code)
        return
    policies.check_reason(accept_past, reason)
    if against is not None:
        _confirm_ignored(context, file or context.policy_path, against)
    with context.open_to_book() as store:
        applied = policies.apply(
            context,
            store,
            checked,
            in_flight=in_flight.value,
            if_active=_version(if_active),
            accept_past=accept_past,
            reason=reason,
            sample=sample,
        )
    context.show(_applied(applied), _applied_words(applied))
    if unknown := policies.not_verified(checked.policy):
        context.say(
            f"WARN no auditor can check {listed(unknown, 8)}: audit verify knows no rule "
            "of such a kind, and reports it as NOT CHECKED; the gate keeps its limit"
        )


@app.command()
def picture(
    ctx: typer.Context,
    file: File = None,
    output: Output = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Records: what they show under the policy."),
    ] = None,
    format: FormatOption = None,
    encoding: EncodingOption = None,
    delimiter: DelimiterOption = None,
    sheet: SheetOption = None,
    time_limit: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds of search, at most.", show_default=True),
    ] = 2 * SEARCH,
) -> None:
    """Draw what one stranger could know under a policy file, and two who share.

    The page is one HTML file, picture.html unless --output names another.

    The densest view that the policy allows of one record, on made-up values. With
    --against: the share of people whom it singles out, and the worst of all views that
    were found; how well what is kept can be guessed from equal values in other records.
    The first line says if a search was not finished in time. The page holds no value of
    the file.
    """
    from dispatcher.operations import instances, pictures
    from dispatcher.surfaces import picture as pages

    context: CliContext = ctx.obj
    output = output or Path("picture.html")
    path = file or context.policy_path
    checked = valid_policy(path)
    context.spare(output, path, *filter(None, [against]))
    instances.check_place(output)
    drawn = pictures.of_file(
        checked.policy,
        path.parent,
        against,
        read_options(format, encoding, delimiter, sheet, None),
        seconds=time_limit,
    )
    stamp = f"Drawn from {path.name}, {told_moment(context.clock())}."
    instances.write_whole(output, pages.page(drawn, stamp))
    context.show(_drawn(drawn, output), "\n".join(pages.sentences(drawn)))
    context.say(f"wrote {output}: open it in a browser")


def _drawn(drawn: Picture, output: Path) -> dict[str, Any]:
    """Return the numbers of a picture."""

    def seen(view: SeenFields | None) -> dict[str, Any] | None:
        return None if view is None else asdict(view)

    return {
        "schema": "dispatcher.picture/1",
        "file": str(output),
        "policy": drawn.policy.name,
        "measured": drawn.measured and asdict(drawn.measured),
        "finished": drawn.finished,
        "worst": seen(drawn.worst),
        "one": seen(drawn.view),
        "most_telling": seen(drawn.telling),
        "two_together": seen(drawn.pair),
        "one_of_two_records": seen(drawn.several),
        "fields": [asdict(field) for field in drawn.fields],
        "rules": [
            {
                "name": rule.name,
                "f": None if rule.f is None else float(rule.f),
                "f_together": None
                if rule.f_together is None
                else float(rule.f_together),
                "denies": list(rule.denies),
                "reached_together": rule.broken,
            }
            for rule in drawn.rules
        ],
    }


def _preview(
    context: CliContext,
    checked: PolicyFile,
    in_flight: InFlight,
    breaches: bool,
    time_limit: float | None,
    exit_code: bool,
) -> None:
    """Show what putting a policy file in force would do."""
    from dispatcher.operations import policies

    context.say(DRY_RUN)
    with context.open_store() as store:
        preview = policies.preview(
            context,
            store,
            checked,
            in_flight=in_flight.value,
            time_limit=time_limit or SEARCH,
        )
    applied = preview.applied
    past = previews.findings(preview.findings)
    if not applied.changed:
        context.say(
            f"version {applied.version} is this very file: nothing would change"
        )
    context.show(_planned(preview, past), _lay_out(preview, past, breaches))
    if exit_code and (
        past or preview.impact.verdict != "SOLVED" or applied.recall.unsafe
    ):
        leave(EXIT_FINDINGS)


def _confirm_ignored(context: CliContext, path: Path, source: Path) -> None:
    """Show what a file of records shows and the policy ignores, and ask."""
    from policies.document import render_files

    (result,) = _against([parse_policy(path)], source)
    ignored = [d for d in result.diagnostics if d.code.startswith("POL4")]
    if not ignored:
        return
    context.say(render_files([(result.filename, result.text, ignored)], "full"))
    warnings = count(len(ignored), "warning")
    context.confirm(f"{source} shows what {path} ignores ({warnings}); apply it?")


@app.command("list")
def list_versions(ctx: typer.Context) -> None:
    """List the versions that were applied: which one held when, and why it came."""
    from dispatcher.operations import policies

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = policies.list_versions(store)
    listed = [
        {
            "version": one.row.version,
            "name": one.row.name,
            "from": zulu(one.row.applied_at),
            "until": zulu(one.until) if one.until is not None else None,
            "sha256": one.row.sha256,
            "accepted_past": one.row.accepted,
            "reason": one.row.reason,
        }
        for one in found
    ]
    header = ("version", "from", "until", "sha256", "accepted past", "reason")
    context.show(
        {"schema": "dispatcher.policies/1", "versions": listed},
        context.table(
            [
                (
                    one["version"],
                    one["from"],
                    one["until"] or "in force",
                    str(one["sha256"])[:12],
                    one["accepted_past"],
                    one["reason"] or "-",
                )
                for one in listed
            ],
            header,
        ),
    )


def _version(text: str | None) -> int | None:
    """Read a version as people write it: 7 or v7."""
    if text is None:
        return None
    digits = text.removeprefix("v")
    if not (digits.isascii() and digits.isdigit()):
        raise Usage(
            f"{text[:20]!r} is no version of the policy",
            why="versions are counted 1, 2, 3 ... as they are applied",
            fix="write it like 7 or v7; see: dispatcher policy list",
        )
    return int(digits)


def _planned(preview: PolicyPreview, past: list[dict[str, Any]]) -> dict[str, Any]:
    applied, seen, by_rule = preview.applied, preview.impact, preview.by_rule
    return {
        "schema": "dispatcher.policy-plan/1",
        "active": preview.in_force,
        "version": applied.version,
        "changed": applied.changed,
        "adversaries_joined": applied.joined,
        "past": len(past),
        "by_rule": dict(by_rule),
        "sets": past,
        "open_tasks": previews.open_numbers(applied.recall, applied.recalled),
        "planned": seen.planned,
        "refused": seen.refused,
        "verdict": seen.verdict,
        "adversaries": seen.present,
        "needed": seen.needed,
        "held": seen.held,
        "safe_with": seen.safe_with,
        "why": list(seen.why),
    }


def _lay_out(preview: PolicyPreview, past: list[dict[str, Any]], breaches: bool) -> str:
    applied, seen, by_rule = preview.applied, preview.impact, preview.by_rule
    open_ = previews.open_words(applied.recall, applied.recalled, ahead=True)
    planned = count(seen.planned, "planned showing")
    lines = [
        f"version {applied.version} would",
        f"  open         {open_}",
        f"  planned      refuse {seen.refused:,} of {planned}; all are planned anew",
        f"  feasible     {_feasible(seen)}",
        *(f"    {why}" for why in seen.why),
    ]
    if applied.joined:
        ended = count(applied.joined, "worker")
        lines.append(f"  groups       {ended} would end in another one")
    if past:
        rules = ", ".join(f"{k} {n}" for k, n in by_rule.items())
        sets = count(len(past), "set of a worker", "sets of workers")
        lines.append(
            f"ALREADY PAST its limits: {sets} ({rules}); what was seen cannot be undone"
        )
        lines += (
            previews.lines(past)
            if breaches
            else ["  list: policy apply --dry-run --breaches"]
        )
        lines.append(
            f"next: dispatcher policy apply --accept-past {len(past)} --reason TEXT"
        )
    else:
        lines.append("nothing that was shown is past its limits")
    return "\n".join(lines)


def _feasible(seen: Impact) -> str:
    present = count(seen.present, "worker")
    if seen.verdict == "SOLVED":
        safe = f"; from {seen.safe_with:,} on whoever comes first, all can be shown"
        return f"yes, by a plan ({present} present{safe if seen.safe_with else ''})"
    held = count(seen.held, "field")
    if seen.verdict != "INFEASIBLE":
        return f"unknown: {held} without a plan so far ({present} present)"
    needed = f"{seen.needed:,} needed" if seen.needed else "no number would do"
    return f"no: {held} held back ({needed}, {seen.present:,} present)"


def _applied(applied: AppliedPolicy) -> dict[str, Any]:
    return {
        "schema": "dispatcher.policy/1",
        "version": applied.version,
        "sha256": applied.sha256,
        "changed": applied.changed,
        "adversaries_judged": applied.judged,
        "adversaries_joined": applied.joined,
        "accepted_past": len(applied.accepted),
        "open_tasks": previews.open_numbers(applied.recall, applied.recalled),
    }


def _applied_words(applied: AppliedPolicy) -> str:
    if not applied.changed:
        return f"version {applied.version} was in force already"
    lines = [f"version {applied.version} is in force"]
    if applied.accepted:
        sets = count(len(applied.accepted), "set")
        lines.append(f"  {sets} past its limits accepted; the ledger says which")
    if applied.recall.unsafe:
        words = previews.open_words(applied.recall, applied.recalled, ahead=False)
        lines.append(f"  {words}")
    return "\n".join(lines)
