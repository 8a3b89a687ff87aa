"""Webhooks, and what became of the notices to each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query

from dispatcher.operations import notices
from dispatcher.surfaces.api import documents as d
from dispatcher.surfaces.api.calls import Called, Number, Parted, take


def list_webhooks(call: Called) -> Sequence[d.Webhook]:
    """List webhooks, without their secrets."""
    found = notices.list_receivers(call.workspace, call.store)
    return [take(d.Webhook, one) for one in found.webhooks]


def show_webhook(call: Called, webhook: Number) -> d.Webhook:
    """Show one webhook, without its secret."""
    return take(d.Webhook, notices.show_webhook(call.workspace, call.store, webhook))


def add_webhook(call: Called, body: d.AddWebhook) -> d.NewWebhook:
    """Add a webhook; the secret that its messages are signed with is shown this once."""
    call.refuse_trial("a secret is shown")
    made = notices.add_webhook(call.workspace, call.store, body.url, body.types)
    return take(d.NewWebhook, made)


def remove_webhook(call: Called, webhook: Number) -> d.RemovedWebhook:
    """Remove a webhook with its log; what waits for it is not delivered."""
    notices.remove_webhook(call.store, webhook)
    return d.RemovedWebhook(id=webhook)


def rotate_webhook(call: Called, webhook: Number) -> d.NewWebhook:
    """Give a webhook a new secret; for 24 hours the one of before signs too."""
    call.refuse_trial("a secret is shown")
    made = notices.rotate_secret(call.workspace, call.store, webhook)
    return take(d.NewWebhook, made)


def try_webhook(call: Called, webhook: Number) -> d.TriedWebhook:
    """Send a test now; a disabled webhook that takes it gets notices again."""
    call.refuse_trial("a message is sent")
    tried = notices.send_test(call.workspace, call.store, webhook)
    return d.TriedWebhook(id=webhook, status=tried.status, error=tried.error)


def list_deliveries(
    call: Called,
    webhook: Number,
    part: Parted,
    failed: Annotated[
        bool, Query(description="Only those that were given up.")
    ] = False,
) -> d.Page[d.Delivery]:
    """List deliveries to a webhook, the newest first."""
    found = notices.deliveries(
        call.store,
        webhook,
        failed=failed,
        before=part.after or 2**63 - 1,
        limit=part.limit + 1,
    )
    return part.page(found, lambda one: one.id, lambda one: take(d.Delivery, one))


def redeliver_notice(call: Called, webhook: Number, delivery: Number) -> d.Redelivered:
    """Have the daemon make a delivery again, under the same message id."""
    notices.redeliver(call.workspace, call.store, delivery, to=webhook)
    return d.Redelivered(id=delivery)
