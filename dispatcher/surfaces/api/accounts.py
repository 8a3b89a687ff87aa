"""Workers, and what they are paid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import Query

from dispatcher.operations import payments, people, workers
from dispatcher.surfaces.api import documents as d
from dispatcher.surfaces.api.calls import (
    Call,
    Called,
    Named,
    Number,
    Only,
    Parted,
    Worked,
    take,
)
from dispatcher.surfaces.api.problems import ProblemError

# -- workers -------------------------------------------------------------------------------


def list_workers(
    call: Called, part: Parted, connector: Only = None
) -> d.Page[d.WorkerLine]:
    """List worker accounts with their adversaries."""
    found = workers.list_accounts(call.store, connector)
    return part.slice(found, lambda one: take(d.WorkerLine, one))


def show_worker(call: Called, connector: Named, name: Worked) -> d.Worker:
    """Show what a worker saw, how near that is to each limit, and how good it is."""
    found = workers.show(call.workspace, call.store, f"{connector}/{name}")
    seen, quality = found.seen, found.quality
    return d.Worker(
        worker=found.account.text,
        state=found.account.state,
        adversary=seen.chain,
        accounts=seen.accounts,
        groups=found.groups,
        may_be_one_person_with=found.may_be,
        fields_seen=seen.entries,
        records_seen=seen.records,
        open_tasks=seen.open_tasks,
        agreement=quality.agreement,
        gold_accuracy=quality.gold_accuracy,
        exposure=[
            d.RuleShare(
                rule=one.rule,
                f=str(one.f),
                limit=None if one.tau is None else str(one.tau),
                share=float(one.share),
                left=one.left,
                units=one.units,
                full=one.full,
                refused=one.refused,
            )
            for one in seen.nearness
        ],
    )


def add_workers(call: Called, body: d.AddWorkers) -> d.Added:
    """Add workers; each is an adversary of its own, or part of its groups' one."""
    names = workers.read_names(body.workers)
    workers.check_connectors(call.workspace, names)
    add = workers.preview_add if call.dry_run else workers.add
    terms = {} if call.dry_run else {"accept_past": body.accept_past}
    done = add(call.workspace, call.store, names, **terms)
    return d.Added(
        added=[account.text for account in done.accounts],
        known=done.known,
        adversaries_joined=done.joined,
        past=len(done.accepted),
    )


def invite_workers(call: Called, body: d.InviteWorkers) -> d.Invited:
    """Make new personal links to the task page; earlier ones of these workers end."""
    found = workers.invite(call.workspace, call.store, body.workers, body.days)
    # of a link that was tried nothing is shown: the next real one would be the same
    links = {name: "" if call.dry_run else link for name, link in found.links.items()}
    return d.Invited(links=links)


def block_worker(call: Called, connector: Named, name: Worked) -> d.BlockedWorker:
    """Show a worker nothing more; what they were shown stays in the ledger."""
    account = f"{connector}/{name}"
    cost = workers.cost_of_blocking(call.workspace, call.store, account)
    done = workers.block(call.workspace, call.store, account)
    return d.BlockedWorker.model_validate(
        {**done._asdict(), **asdict(cost), "text": done.text}
    )


def unblock_worker(call: Called, connector: Named, name: Worked) -> d.WorkerLine:
    """Let a worker work again who is blocked, stopped below the floor, or left."""
    done = workers.unblock(call.workspace, call.store, f"{connector}/{name}")
    return take(d.WorkerLine, done)


def merge_workers(call: Called, body: d.MergeWorkers) -> d.Merge:
    """Take accounts as one worker, for good: what each saw counts for all of them."""
    parts = [body.accounts]
    preview = workers.preview_merge(call.workspace, call.store, parts, body.reason)
    if call.dry_run:
        return _merge(call, preview)
    workers.check_accepted(preview, body.accept_past)
    done = workers.merge(
        call.workspace, call.store, parts, body.reason, accept_past=body.accept_past
    )
    return _merge(call, done)


def _merge(call: Call, merge: workers.Merge) -> d.Merge:
    masked = replace(merge, findings=tuple(call.masked(merge.findings)))
    return take(d.Merge, masked)


def list_suspects(
    call: Called, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> Sequence[d.Suspects]:
    """List accounts that may be one person, and what a merge of them would do."""
    found = workers.suspects(call.workspace, call.store, limit)
    return [
        d.Suspects.model_validate(
            {
                "accounts": one.accounts,
                "noted": one.noted,
                "merge": _merge(call, one.merge),
            }
        )
        for one in found
    ]


def distinguish_workers(call: Called, body: d.Distinguish) -> d.Pair:
    """Record that two accounts are two people, though they came with one browser."""
    workers.distinguish(
        call.workspace, call.store, body.first, body.second, body.reason
    )
    return d.Pair(accounts=[body.first, body.second])


def list_groups(call: Called) -> Sequence[d.Group]:
    """List the groups of the policy in force, and who is trusted with what."""
    return [take(d.Group, one) for one in workers.list_groups(call.store)]


# -- payments ------------------------------------------------------------------------------


def list_payments(
    call: Called,
    part: Parted,
    state: Only = None,
    run: Only = None,
    connector: Only = None,
) -> d.Page[d.Payment]:
    """List payments, the latest change first; without a state those that are open."""
    states = ["held", "unknown", "due"] if state is None else [state]
    most = (part.after or 0) + part.limit + 1
    found = payments.list_payments(
        call.store, states, run=run, connector=connector, limit=most
    )

    def line(row: Any) -> d.Payment:  # noqa: ANN401 - a row of a query
        return d.Payment.model_validate(
            {
                "payment": f"{row.kind}-{row.about}",
                "run": row.run,
                "worker": row.account,
                "amount": payments.amount_of(row),
                "state": row.state,
                "at": row.at,
                "why": row.why or "",
            }
        )

    return part.slice(found, line)


def show_payment(call: Called, payment: Named) -> Sequence[d.PaymentChange]:
    """Show every change of a payment, and who made it."""
    return [
        d.PaymentChange.model_validate(
            {
                "at": row.at,
                "state": row.state,
                "amount": payments.amount_of(row),
                "by": row.actor,
                "why": row.why or "",
            }
        )
        for row in payments.history(call.store, payment)
    ]


def list_owed(call: Called) -> Sequence[d.Owed]:
    """List what is owed to workers whom no market pays."""
    return [
        d.Owed.model_validate(
            {
                "run": row.run,
                "worker": row.account,
                "amount": payments.amount_of(row),
                "fields": row.payments,
            }
        )
        for row in payments.list_owed(call.store)
    ]


def approve_payments(call: Called, body: d.DecidePayments) -> d.Decided:
    """Have markets pay after a review."""
    done = payments.approve(call.workspace, call.store, body.payments, body.reason)
    return d.Decided(payments=done)


def refuse_payments(call: Called, body: d.DecidePayments) -> d.Decided:
    """Pay nothing for work; its money returns to the budget."""
    done = payments.refuse(call.workspace, call.store, body.payments, body.reason)
    return d.Decided(payments=done)


def settle_payments(call: Called, body: d.SettlePayments) -> d.Decided:
    """Record that a person has paid them, outside of the program or at the market."""
    if (body.worker is None) == (not body.payments):
        raise ProblemError(
            422,
            "either payments are named, or a worker is",
            "send one of the two",
            pointer="/payments",
        )
    done = payments.settle(
        call.workspace, call.store, body.payments, body.reason, account=body.worker
    )
    return d.Decided(payments=done)


# -- people who operate, and their tokens ------------------------------------------------------


def list_users(call: Called) -> Sequence[d.User]:
    """List users with their roles."""
    return [take(d.User, one) for one in people.list_users(call.store)]


def show_user(call: Called, user: Named) -> d.User:
    """Show a user with their roles."""
    return _user(call, user)


def _user(call: Call, name: str) -> d.User:
    return take(d.User, people.show_user(call.store, name))


def add_user(call: Called, body: d.AddUser) -> d.Enrolment:
    """Add a user; the link lets them choose a password and a second factor."""
    link = people.add_user(call.workspace, call.store, body.name, body.roles)
    return d.Enrolment(name=body.name, link="" if call.dry_run else link)


def set_roles(call: Called, user: Named, body: d.Roles) -> d.User:
    """Give a user these roles and no others; all their sessions end."""
    before = None if call.read is None else call.read.roles
    people.set_roles(call.workspace, call.store, user, body.roles, before=before)
    return _user(call, user)


def disable_user(call: Called, user: Named) -> d.User:
    """Let a user in no more, nor their tokens; all their sessions end."""
    people.disable_user(call.workspace, call.store, user)
    return _user(call, user)


def enable_user(call: Called, user: Named) -> d.User:
    """Let a user in again."""
    people.disable_user(call.workspace, call.store, user, enable=True)
    return _user(call, user)


def reset_user(call: Called, user: Named) -> d.Enrolment:
    """Take password, second factor, sessions and tokens away; make a new link."""
    link = people.reset_user(call.workspace, call.store, user)
    return d.Enrolment(name=user, link="" if call.dry_run else link)


def list_sessions(call: Called) -> Sequence[d.Session]:
    """List sessions of the console that are valid now."""
    found = people.list_sessions(call.workspace, call.store)
    return [take(d.Session, one) for one in found]


def revoke_session(call: Called, session: Named) -> d.Session:
    """End a session of the console at once."""
    return take(d.Session, people.revoke_session(call.workspace, call.store, session))


def list_tokens(call: Called) -> Sequence[d.Token]:
    """List tokens by their first characters."""
    found = people.list_tokens(call.workspace, call.store)
    return [take(d.Token, one) for one in found]


def make_token(call: Called, body: d.MakeToken) -> d.NewToken:
    """Make a token, shown this once; no token may make others."""
    call.refuse_trial("a secret is shown")
    made = people.make_token(
        call.workspace,
        call.store,
        body.name,
        body.scopes,
        days=body.days,
        user=body.user,
    )
    return take(d.NewToken, made)


def revoke_token(call: Called, token: Number) -> d.Token:
    """End a token: it opens nothing from now on."""
    gone = people.revoke_token(call.workspace, call.store, str(token))
    return take(d.Token, gone)
