"""``dispatcher answers``: conflicts that an operator judges, and what was refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import Invalid, Usage
from dispatcher.core.input_files import read_input
from dispatcher.core.plurals import count
from dispatcher.surfaces.cli import completion
from dispatcher.surfaces.cli.context import (
    DRY_RUN,
    CliContext,
    DryRun,
    Limit,
    Reason,
    zulu,
)

if TYPE_CHECKING:
    from dispatcher.operations.agreement import Confusion
    from dispatcher.operations.answers import Judged

app = typer.Typer(
    help="Judge answers that disagree; look at those that were refused.",
    no_args_is_help=True,
)


@app.command("list")
def list_answers(
    ctx: typer.Context,
    dismissed: Annotated[
        bool, typer.Option("--dismissed", help="Dismissed ones too.")
    ] = False,
    show_values: Annotated[
        bool,
        typer.Option("--show-values", help="Show values too."),
    ] = False,
    reason: Reason = "",
    limit: Limit = 100,
) -> None:
    """List answers that fit no task, the newest first; values stay hidden.

    With --show-values they are shown, for a --reason that the audit log keeps.

    An answer is refused when it names no task, or another worker's, or a field that is
    no longer asked for. It never counts; it is kept so that you can see what went wrong
    at its connector.
    """
    from dispatcher.operations import answers

    context: CliContext = ctx.obj
    if show_values:
        answers.check_reason(reason, "values are shown")
    with context.open_store() as store:
        found = answers.list_refused(store, dismissed=dismissed, limit=limit)
        ids = [row.id for row in found]
        contents = answers.reveal(context, store, ids, reason) if show_values else {}
    header: tuple[str, ...] = ("id", "connector", "at", "reason", "dismissed")
    lines: list[tuple[object, ...]] = [
        (row.id, row.connector, zulu(row.at), row.reason, row.dismissed_why or "-")
        for row in found
    ]
    document: list[dict[str, Any]] = [
        dict(zip(header, line, strict=True)) for line in lines
    ]
    for one, row in zip(document, found, strict=True):
        one["dismissed"] = row.dismissed_why
        if row.id in contents:
            one["said"] = _said(contents[row.id])
    if contents:
        header = (*header, "said")
        lines = [
            (*line, json.dumps(one.get("said"), ensure_ascii=False))
            for line, one in zip(lines, document, strict=True)
        ]
    context.show(
        {"schema": "dispatcher.refused-answers/1", "answers": document},
        context.table(lines, header),
    )
    if len(found) == limit:
        context.say(f"the newest {limit:,}; see more with --limit")
    if any(row.dismissed_at is None for row in found):
        context.say("next: dispatcher answers dismiss ID ... --reason TEXT")


FieldName = Annotated[
    str,
    typer.Argument(
        metavar="FIELD", help="RECORD.FIELD", autocompletion=completion.record_fields
    ),
]


@app.command()
def conflicts(ctx: typer.Context, limit: Limit = 100) -> None:
    """List fields whose answers disagree, with who gave which; values stay hidden.

    Answers that mean the same have one letter. A worker's quality is how often their
    answers are right, as far as the others tell.
    """
    from dispatcher.operations import answers

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = answers.list_conflicts(store, limit=limit)
    document = [
        {
            "field": one.id,
            "run": one.run,
            "question": one.question,
            "choices": [
                {
                    "letter": choice.letter,
                    "givers": [
                        {
                            "worker": giver.worker,
                            "connector": giver.connector,
                            "quality": round(giver.quality, 4),
                        }
                        for giver in choice.givers
                    ],
                }
                for choice in one.choices
            ],
            "shown": one.showings,
            "t": one.limit,
            "open_tasks": one.open_tasks,
        }
        for one in found
    ]
    header = ("field", "run", "answers", "shown", "t", "open_tasks")
    lines = [
        (
            one.id,
            one.run,
            "; ".join(
                f"{choice.letter}: "
                + ", ".join(f"{g.worker} {g.quality:.2f}" for g in choice.givers)
                for choice in one.choices
            )
            or "-",
            one.showings,
            one.limit,
            one.open_tasks,
        )
        for one in found
    ]
    context.show(
        {"schema": "dispatcher.conflicts/1", "conflicts": document},
        context.table(lines, header),
    )
    if len(found) == limit:
        context.say(f"the first {limit:,}; see more with --limit")
    if found:
        context.say("next: dispatcher answers judge FIELD --choose A --reason TEXT")


@app.command()
def agreement(
    ctx: typer.Context,
    worker: Annotated[str, typer.Option(help="This worker.")] = "",
) -> None:
    """Show how far workers agree beyond chance, and what they take for what.

    Alpha is Krippendorff's for nominal data: 1 where all agree, 0 where chance would
    agree as often. Confusions are of fields whose values the policy declares. Both are
    over the newest answers.
    """
    from dispatcher.operations.agreement import agreement as measured

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = measured(store, worker=worker)
    document = {
        "schema": "dispatcher.agreement/1",
        "newest": found.newest,
        "fields": [asdict(one) for one in found.fields],
        "kinds": [asdict(one) for one in found.kinds],
        "confusions": [
            {**asdict(one), "worker": one.worker or None} for one in found.confusions
        ],
    }
    if worker:
        context.show(document, _confusions(context, found.confusions))
        return
    header = ("field", "kind", "records", "answers", "pairs_agree", "alpha")
    lines = [
        (
            one.field,
            one.ask,
            one.fields,
            one.answers,
            _share(one.observed),
            _share(one.alpha),
        )
        for one in found.fields
    ]
    lines += [
        (
            "all",
            one.ask,
            one.fields,
            one.answers,
            _share(one.observed),
            _share(one.alpha),
        )
        for one in found.kinds
    ]
    context.show(document, context.table(lines, header))
    if found.confusions:
        context.say(
            "what one takes for what: dispatcher answers agreement --worker ..."
        )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _confusions(context: CliContext, found: Sequence[Confusion]) -> str:
    header = ("field", "true", "given", "share", "answers")
    lines = [
        (one.field, true, given, _share(part), one.answers)
        for one in found
        for true, row in zip(one.labels, one.rows, strict=True)
        for given, part in zip(one.labels, row, strict=True)
    ]
    return context.table(lines, header)


@app.command()
def show(ctx: typer.Context, fields: FieldName, reason: Reason = "") -> None:
    """Show what the answers to a field say, for a --reason that the audit log keeps."""
    from dispatcher.operations import answers

    context: CliContext = ctx.obj
    answers.check_reason(reason, "values are shown")
    with context.open_store() as store:
        found = answers.reveal_conflict(context, store, fields, reason)
    is_image = found.media.startswith("image/")
    shown = None if is_image else found.content.decode("utf-8", "replace")
    lines = [
        (letter, json.dumps(text, ensure_ascii=False))
        for letter, text in found.answers.items()
    ]
    context.show(
        {
            "schema": "dispatcher.field-answers/1",
            "field": found.id,
            "question": found.question,
            "media": found.media,
            "shown": shown,
            "answers": dict(found.answers),
        },
        context.table(lines, ("letter", "answer")),
    )
    seen = (
        f"an image ({found.media}), in the console"
        if is_image
        else json.dumps(shown, ensure_ascii=False)
    )
    context.say(f"{found.question} Workers saw {seen}")


@app.command()
def judge(
    ctx: typer.Context,
    fields: FieldName,
    choose: Annotated[
        str, typer.Option(metavar="LETTER", help="An answer, as conflicts lists it.")
    ] = "",
    value_from: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="A file with what the field says; - is stdin."
        ),
    ] = "",
    unreadable: Annotated[
        bool, typer.Option("--unreadable", help="It cannot be read.")
    ] = False,
    absent: Annotated[
        bool, typer.Option("--absent", help="There is nothing to give.")
    ] = False,
    ask: Annotated[
        bool, typer.Option("--ask-another", help="Ask one more worker.")
    ] = False,
    consensus: Annotated[
        bool, typer.Option("--consensus", help="Withdraw what was decided by hand.")
    ] = False,
    reason: Reason = "",
    dry_run: DryRun = False,
) -> None:
    """Decide a field by hand: your word counts, not the consensus.

    Exports say that an operator decided, and the audit log who and why. Later answers
    change nothing; a later judgement replaces this one. Open tasks of the field are
    taken back where nobody has begun them. Whoever answered is paid all the same.
    """
    from dispatcher.operations import answers
    from dispatcher.operations.answers import FieldDecision

    context: CliContext = ctx.obj
    asked = {
        FieldDecision.CHOOSE: bool(choose),
        FieldDecision.VALUE: bool(value_from),
        FieldDecision.UNREADABLE: unreadable,
        FieldDecision.ABSENT: absent,
        FieldDecision.ASK: ask,
        FieldDecision.CONSENSUS: consensus,
    }
    wanted = [decision for decision, given in asked.items() if given]
    if len(wanted) != 1:
        raise Usage(
            "what is decided?" if not wanted else "two things are decided at once",
            why="a field is judged in one way",
            fix="name one of --choose, --value-from, --unreadable, --absent, --ask and "
            "--consensus",
        )
    answers.check_reason(reason, "a field is judged")
    value = _value(value_from) if value_from else ""
    with context.open_to_book() as store:
        done = answers.judge(
            context,
            store,
            fields,
            wanted[0],
            reason,
            letter=choose.strip().upper(),
            value=value,
            dry_run=dry_run,
        )
    if dry_run:
        context.say(DRY_RUN)
    context.show(
        {
            "schema": "dispatcher.judged/1",
            "dry_run": dry_run,
            "field": done.id,
            "decision": done.decision.value,
            "before": done.before,
            "after": done.after,
            "decided_by": done.decided_by,
            "tasks": done.tasks,
            "unplanned": done.unplanned,
            "going_on": done.going_on,
            "extra_showings": done.extra_showings,
        },
        _judged(done),
    )


def _judged(done: Judged) -> str:
    words = [f"{done.id}: {done.before} -> {done.after}, by {done.decided_by}"]
    if done.tasks:
        words.append(f"{count(done.tasks, 'open task')} taken back")
    if done.unplanned:
        words.append(f"{count(done.unplanned, 'planned showing')} released")
    if done.going_on:
        words.append(f"{count(done.going_on, 'task')} finished and paid all the same")
    if done.extra_showings:
        words.append(f"{count(done.extra_showings, 'more worker')} asked")
    return "; ".join(words)


def _value(source: str) -> str:
    """Read what a field says: from a file, since a command line is seen by others."""
    if source == "-":
        text = sys.stdin.read()
    else:
        try:
            text = read_input(Path(source)).decode()
        except UnicodeDecodeError:
            raise Invalid(
                "the file with the value is not UTF-8",
                why="the value is text",
                fix="save it as UTF-8",
            ) from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text.strip():
        raise Usage(
            "no value was given",
            why="the value is read from stdin or a file",
            fix="--value-from FILE, or --unreadable",
        )
    return text


@app.command()
def dismiss(
    ctx: typer.Context,
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID", help="As answers list shows.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    reason: Reason = "",
    dry_run: DryRun = False,
) -> None:
    """Note that refused answers were looked at: status names them no more."""
    from dispatcher.operations import answers

    context: CliContext = ctx.obj
    if bool(ids) == everything:
        raise Usage(
            "which answers?" if not ids else "ids are named, and --all too",
            why="those named are dismissed, or all that are not yet",
            fix="dispatcher answers list; then name ids, or --all",
        )
    with context.open_store(dry_run=dry_run) as store:
        done = answers.dismiss(context, store, ids or None, reason)
    context.show(
        {"schema": "dispatcher.dismissed/1", "dismissed": done, "reason": reason},
        f"{count(done, 'answer')} dismissed",
    )


def _said(payload: bytes) -> Any:  # noqa: ANN401 (what was sent, as it was sent)
    try:
        return json.loads(payload)
    except ValueError:
        return payload.decode("utf-8", "replace")
