"""The literal table of all screens, in the order of the navigation: :data:`SCREENS`."""

from __future__ import annotations

from typing import Final

from dispatcher.surfaces.console.screens import (
    answers,
    fields,
    ledger,
    operations,
    overview,
    queue,
    records,
    rules,
    workers,
)
from dispatcher.surfaces.console.view import Screen

SCREENS: Final = (
    Screen("/", "overview", "Overview", "status", overview.overview, key="o"),
    Screen("/workers", "workers", "Workers", "workers.list", workers.list_workers, "w"),
    Screen(
        "/workers/{connector}/{name:path}",
        "worker",
        "Worker",
        "workers.show",
        workers.show_worker,
        listed=False,
        part_of="workers",
    ),
    Screen("/rules", "rules", "Rules", "policy.show", rules.rules, key="p"),
    Screen(
        "/rules/stranger",
        "stranger",
        "What one stranger could know",
        "policy.picture",
        rules.stranger,
        listed=False,
        part_of="rules",
    ),
    Screen("/queue", "queue", "Queue", "queue.list", queue.queue, key="q"),
    Screen("/answers", "answers", "Answers", "answers.list", answers.show_answers, "v"),
    Screen("/fields", "fields", "Fields", "fields.list", fields.list_fields, "f"),
    Screen("/records", "records", "Records", "records.list", records.records),
    Screen(
        "/operations/{operation}",
        "operation",
        "Operation",
        "status",
        operations.show_operation,
        listed=False,
    ),
    Screen("/ledger", "ledger", "Ledger", "ledger.root", ledger.ledger, key="a"),
)
"""Every screen. A role sees those whose operation it may do."""
