"""Records, their fields, answers and made-up questions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from shutil import copyfileobj
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from starlette.responses import JSONResponse

from dispatcher.core.errors import NotFound
from dispatcher.core.keys import is_pseudonym
from dispatcher.custody.erasure import Scope
from dispatcher.ledger.exhausted_fields import Shown
from dispatcher.operations import (
    answers,
    explain,
    fields,
    questions,
    records,
    runs,
    subjects,
)
from dispatcher.operations.records import Options
from dispatcher.stages.intake.preview import FilePreview
from dispatcher.surfaces.api import documents as d
from dispatcher.surfaces.api.calls import (
    Call,
    Called,
    Named,
    Only,
    Parted,
    take,
)
from dispatcher.surfaces.api.problems import ProblemError, parse

# -- records and fields --------------------------------------------------------------------


def list_records(
    call: Called, part: Parted, run: Only = None, state: Only = None
) -> d.Page[d.RecordLine]:
    """List records by pseudonym; neither keys nor values are shown."""
    rows = records.list_records(
        call.store, run, state, part.limit + 1, str(part.after or ""), exact=False
    )
    return part.page(rows, lambda row: row[6], _record_line)


def _record_line(row: Sequence[Any]) -> d.RecordLine:
    _, run, state, asked, answered, conflict, name = row
    return d.RecordLine(
        id=name,
        run=run,
        state=state,
        fields=asked,
        answered=answered,
        conflict=conflict,
    )


def show_record(call: Called, record: Named) -> d.Record:
    """Show a record by its pseudonym: its fields, without values."""
    return _record(call, record)


def find_record(call: Called, body: d.FindRecord) -> d.Record:
    """Find a record by the key that the operator's files have."""
    return _record(call, body.key)


def _record(call: Call, name: str) -> d.Record:
    pseudonym, rows = records.show(call.store, name)
    found = [take(d.RecordField, row) for row in rows]
    return d.Record(id=pseudonym, fields=found)


def reveal_record(call: Called, record: Named, body: d.Reveal) -> d.RevealedRecord:
    """Show the values of a record; the audit log has who asked and why before that."""
    call.refuse_trial("values are shown")
    found = records.reveal(call.workspace, call.store, record, body.reason)
    return take(d.RevealedRecord, found)


def list_fields(
    call: Called,
    part: Parted,
    state: Only = None,
    burnt: Annotated[bool, Query(description="Only those shown t times.")] = False,
) -> d.Page[d.FieldLine]:
    """List fields with their showings and answers."""
    found = fields.list_fields(
        call.store,
        burnt=burnt,
        state=state,
        limit=part.limit + 1,
        after=part.after or 0,
        exact=False,
    )

    def line(one: Shown) -> d.FieldLine:
        return d.FieldLine(
            id=f"{found.pseudonyms[one.record_id]}.{one.field}",
            run=one.run,
            state=one.state,
            burnt=one.burnt,
            shown=one.showings,
            t=one.limit,
            answers=one.answers,
            wanted=one.wanted,
            open_tasks=one.live,
        )

    return part.page(found.fields, lambda one: one.entry_id, line)


def unburn_fields(call: Called, body: d.Unburn) -> d.Unburnt:
    """Let fields be shown to more workers than t says; a line of the ledger."""
    done = fields.grant_showings(
        call.workspace, call.store, body.fields, body.extra, body.reason
    )
    return d.Unburnt(fields=len(done), extra_showings=len(done) * body.extra)


def explain_field(call: Called, body: d.Explain) -> d.Explanation:
    """Explain who could be shown a field, and what the gate says of one worker."""
    if body.worker is None:
        found = fields.takers_of(call.workspace, call.store, body.field)
        return d.Explanation(
            to=found.route.recipients,
            can_take=found.takers.accounts,
            adversaries=found.takers.adversaries,
        )
    one = fields.explain(call.workspace, call.store, body.field, body.worker)
    decided, refusal = one.explanation, one.explanation.refusal
    return d.Explanation(
        to=one.recipients,
        can_take=one.takers.accounts,
        adversaries=one.takers.adversaries,
        worker=one.worker,
        allowed=decided.allowed,
        held=decided.facts.held,
        refused_by=refusal.rule if refusal else None,
        why=refusal.why if refusal else None,
        showings=decided.facts.showings,
        t=decided.facts.limit,
        rules=[
            d.RuleEffect(
                rule=effect.property,
                before=str(effect.before),
                after=str(effect.after),
                tau=None if effect.tau is None else str(effect.tau),
                refused=effect.refused,
            )
            for effect in decided.findings
        ],
        obstacle=one.obstacle or None,
    )


# -- answers -------------------------------------------------------------------------------


def list_conflicts(call: Called, part: Parted) -> d.Page[d.Conflict]:
    """List fields in conflict, with who gave which answer; values stay hidden."""
    found = answers.list_conflicts(
        call.store, limit=part.limit + 1, after=part.after or 0
    )
    return part.page(found, lambda one: one.entry_id, lambda one: take(d.Conflict, one))


def show_answers(call: Called, entry: Named, body: d.Reveal) -> d.RevealedField:
    """Show what a field's answers say; the audit log has who asked and why before that."""
    _check_pseudonym(entry)
    call.refuse_trial("values are shown")
    found = answers.reveal_conflict(call.workspace, call.store, entry, body.reason)
    return take(d.RevealedField, found)


def judge_field(call: Called, entry: Named, body: d.Judge) -> d.Judged:
    """Decide a field by hand: the operator's word counts, not the consensus."""
    _check_pseudonym(entry)
    if body.decision == "ask" and not call.principal.may("fields.unburn"):
        raise ProblemError(
            403,
            "one more worker is asked only by whoever may grant showings",
            "choose an answer, or let an operator ask (scope fields:write)",
        )
    found = answers.judge(
        call.workspace,
        call.store,
        entry,
        answers.FieldDecision(body.decision),
        body.reason,
        letter=body.letter or "",
        value=body.value or "",
    )
    return take(d.Judged, found)


def _check_pseudonym(entry: str) -> None:
    """Refuse a field that is named by its record's key: no address ever contains one."""
    if not is_pseudonym(entry.partition(".")[0]):
        raise NotFound(
            "there is no such field",
            why="a field is called PSEUDONYM.FIELD here",
            fix="take the name that GET /answers/conflicts or GET /fields gives",
        )


def list_refused(
    call: Called,
    part: Parted,
    dismissed: Annotated[bool, Query(description="Those looked at, too.")] = False,
) -> d.Page[d.RefusedAnswer]:
    """List answers that fit no task; what they say stays hidden."""
    most = (part.after or 0) + part.limit + 1
    found = answers.list_refused(call.store, dismissed=dismissed, limit=most)
    return part.slice(found, lambda one: take(d.RefusedAnswer, one))


def reveal_answers(call: Called, body: d.RevealAnswers) -> d.RevealedAnswers:
    """Show what refused answers say; the audit log keeps who asked, and why."""
    call.refuse_trial("values are shown")
    found = answers.reveal(call.workspace, call.store, body.ids, body.reason)
    shown = {number: text.decode("utf-8", "replace") for number, text in found.items()}
    return d.RevealedAnswers(answers=shown)


def dismiss_answers(call: Called, body: d.DismissAnswers) -> d.Dismissed:
    """Mark refused answers as looked at."""
    done = answers.dismiss(call.workspace, call.store, body.ids, body.reason)
    return d.Dismissed(dismissed=done)


# -- questions -----------------------------------------------------------------------------


def list_questions(call: Called) -> d.Questions:
    """List made-up questions by field."""
    return d.Questions(
        tests=[
            d.QuestionTest(field=one.row.field, questions=one.questions)
            for one in questions.list_tests(call.store)
        ],
        gold=[
            d.QuestionGold(field=one.row.field, left=one.left)
            for one in questions.list_gold(call.store)
        ],
    )


def drop_questions(call: Called, body: d.DropQuestions) -> d.Dropped:
    """Drop a field's made-up questions; what was asked stays counted."""
    done = questions.drop(call.workspace, call.store, body.field, body.purpose)
    return d.Dropped(dropped=done)


def explain_record(call: Called, record: Named) -> d.RecordExplanation:
    """Explain a record: who has seen which field, and how many could."""
    found = explain.explain(call.workspace, call.store, record)
    if not isinstance(found, explain.ExplainedRecord):
        raise NotFound(
            "there is no such record",
            why="the name is a worker's",
            fix="GET /workers/{connector}/{name}",
        )
    shown = [take(d.ExplainedField, one) for one in found.fields]
    return d.RecordExplanation(id=found.pseudonym, fields=shown)


# -- files that come in and go out ----------------------------------------------------------

FILES: Final = {"application/x-ndjson": ".jsonl", "text/csv": ".csv"}
"""Files that are taken, by media type."""
LONGEST_LINE: Final = 16 << 20
"""Most bytes of one record, as it is loaded."""
OnRejected = Annotated[
    Literal["stop", "skip"],
    Query(description="Whether a row that cannot be loaded stops the load."),
]


def preview_records(call: Called) -> d.Preview:
    """Describe a file's columns, and which rows a load would reject."""
    with call.file() as path:
        _check_lines(path)
        return take(
            d.Preview, records.preview(path, Options(), call.workspace, call.store)
        )


def load_records(
    call: Called, run: Named, on_rejected: OnRejected = "stop"
) -> JSONResponse:
    """Load a file of records under the policy in force; twice is once.

    With ``stop`` nothing is loaded if any row would be rejected.
    """
    upload = call.file()

    def work(_: str) -> d.Loaded:
        with upload as path:
            _check_lines(path)
            options = Options()
            if on_rejected == "stop" or call.dry_run:
                found = records.preview(path, options, call.workspace, call.store)
                if found.rejections and on_rejected == "stop":
                    raise _rejected(found)
                if call.dry_run:
                    return d.Loaded(
                        run=run,
                        records=found.rows - found.rejections,
                        entries=0,
                        skipped=0,
                        rejected=found.rejections,
                    )
            done = records.load(
                call.workspace,
                call.store,
                path,
                options=options,
                rejects=path.with_name("rejected"),
                run=run,
            )
        counts = done.counts
        return d.Loaded(
            run=run,
            records=counts.records,
            entries=counts.entries,
            skipped=counts.skipped,
            rejected=counts.rejected,
        )

    return call.later(d.Loaded, work)


def _check_lines(path: Path) -> None:
    """Refuse lines that are not JSON as everybody reads it, before any is loaded."""
    if path.suffix != ".jsonl":
        return
    with path.open("rb") as lines:
        read = partial(lines.readline, LONGEST_LINE + 1)  # never a whole file as one
        for number, line in enumerate(iter(read, b""), 1):
            try:
                found = _record_of(line)
            except ProblemError as error:
                detail, fix = error.detail.replace("the body", "the line"), error.fix
            else:
                if isinstance(found, dict):
                    continue
                detail, fix = "it is no object", "write one record a line"
            raise ProblemError(422, f"line {number}: {detail}", fix, line=number)


def _record_of(line: bytes) -> Any:  # noqa: ANN401 - what JSON can be
    if len(line) > LONGEST_LINE:
        raise ProblemError(
            422,
            f"the line has more than {LONGEST_LINE:,} bytes",
            "write one record a line; images lie in files of their own",
        )
    return parse(line) if line.strip() else {}


def _rejected(found: FilePreview) -> ProblemError:
    first = found.rejected[0]
    return ProblemError(
        422,
        f"{found.rejections:,} rows would be rejected, the first on line {first.line}: "
        f"{first.reason}",
        "correct them (POST /records:preview lists a hundred), or load the others with "
        "on_rejected=skip",
        line=first.line,
    )


def add_gold(call: Called, field: Named) -> d.GoldAdded:
    """Add made-up questions to mix among the real ones of a field."""
    with call.file() as path:
        return take(
            d.GoldAdded, questions.add_gold(call.workspace, call.store, field, path)
        )


def set_test(
    call: Called, field: Named, share: Annotated[float, Query(gt=0, le=1)]
) -> d.QuestionsOfTest:
    """Require a passed test for a field: the share of answers that must be right."""
    with call.file() as path:
        done = questions.set_test(call.workspace, call.store, field, path, share)
    return d.QuestionsOfTest(questions=done)


def export_run(call: Called, run: Named, body: d.ExportRun) -> JSONResponse:
    """Put the records of a run together again; fetch them once from the operation."""
    runs.show(call.workspace, call.store, run)
    call.refuse_trial("values are put together")

    def work(number: str) -> object:
        name = f"{run}.{body.format}"
        file = call.shared.requests.file(number, name, call.act)
        return records.reassemble_to_stream(
            call.store, run, file, body.format, excel_guard=body.excel_guard
        )

    return call.later(d.Exported, work)


# -- people -----------------------------------------------------------------------------------


def find_subject(call: Called, body: d.FindSubject) -> Sequence[d.Subject]:
    """Find a person or record by the key in the operator's files."""
    return [_subject(one) for one in subjects.find(call.store, body.key)]


def show_subject(call: Called, subject: Named) -> d.Subject:
    """Show what is stored about a person or record, by pseudonym."""
    return _subject(subjects.scope(call.store, subject))


def _subject(found: Scope) -> d.Subject:
    return d.Subject(
        id=found.id,
        counts=dict(found.counts),
        open_tasks=dict(found.open_tasks),
        showings=found.showings.lines,
        adversaries=found.showings.adversaries,
    )


def report_subject(call: Called, subject: Named, body: d.ReportSubject) -> JSONResponse:
    """Write all data about a person into a zip file; fetch it once."""
    call.refuse_trial("values are put together")
    subjects.scope(call.store, subject)

    def work(number: str) -> d.Reported:
        with call.shared.workplace() as place:
            path = place / "report.zip"
            counts = subjects.report(
                call.workspace, call.store, subject, path, with_names=body.with_names
            )
            name = f"{subject}.zip"
            file = call.shared.requests.file(number, name, call.act)
            with path.open("rb") as written:
                copyfileobj(written, file)
        return d.Reported(counts=counts)

    return call.later(d.Reported, work)


def erase_subject(call: Called, subject: Named, body: d.EraseSubject) -> JSONResponse:
    """Erase a person's values for good, with a signed receipt."""
    found = subjects.scope(call.store, subject)
    if body.confirm != subject:
        raise ProblemError(
            422,
            "the erasure is not confirmed",
            "send the pseudonym once more as `confirm`",
            pointer="/confirm",
        )

    def work(_: str) -> d.Erased:
        if call.dry_run:
            return d.Erased(deleted=dict(found.counts), recalled=dict(found.open_tasks))
        return _erased(subjects.erase(call.workspace, call.store, subject))

    return call.later(d.Erased, work)


def purge_records(call: Called, body: d.PurgeRecords) -> JSONResponse:
    """Erase the values of records that were loaded so many days ago, or before."""
    moment = call.workspace.clock() - body.older_than_days * 86_400_000_000

    def work(_: str) -> d.Erased:
        if call.dry_run:
            count = subjects.count_older(call.store, moment)
            return d.Erased(deleted={"records": count})
        return _erased(subjects.purge(call.workspace, call.store, moment))

    return call.later(d.Erased, work)


def _erased(done: subjects.Erasure) -> d.Erased:
    found, receipt = done.erased, done.receipt
    return d.Erased(
        deleted=dict(found.deleted),
        recalled=dict(found.recalled),
        not_recalled=dict(found.beyond),
        scrubbed=found.scrubbed,
        receipt=None if receipt is None else receipt.name,
    )
