"""Settings: users, sessions, tokens, webhooks with their deliveries, and backups."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from dispatcher.operations import backups, notices, people
from dispatcher.surfaces.console.tables import Column, Empty, Table
from dispatcher.surfaces.console.view import View

USERS: Final = Table(
    "users",
    "Users",
    (
        Column("name", "User"),
        Column("roles", "Roles", wide=True),
        Column("state", "State", "state"),
        Column("signs_in_by", "Signs in by"),
        Column("made_at", "Added", "time"),
    ),
    Empty(
        "Everybody who may sign in by name, with their roles.",
        "There is no user yet; sign-in links of this machine open the console.",
        button="Add a user",
        href="/do/add-user",
    ),
    prefix="user.",
    acts=(
        (
            "set-roles",
            lambda row: {"user": row["name"], "roles": "\n".join(row["roles"])},
        ),
        ("reset-user", lambda row: {"user": row["name"]}),
        (
            "disable-user",
            lambda row: {"user": row["name"]} if row["state"] != "disabled" else None,
        ),
        (
            "enable-user",
            lambda row: {"user": row["name"]} if row["state"] == "disabled" else None,
        ),
    ),
)
SESSIONS: Final = Table(
    "sessions",
    "Sessions that are open now",
    (
        Column("user", "Who"),
        Column("opened_at", "Opened", "time"),
        Column("seen_at", "Last used", "time"),
        Column("id", "Session", "code"),
    ),
    Empty("Every session of the console that is open.", "None is open."),
    prefix="session.",
    acts=(("revoke-session", lambda row: {"session": row["id"]}),),
)
TOKENS: Final = Table(
    "tokens",
    "Tokens of the API",
    (
        Column("name", "Token"),
        Column("prefix", "Begins with", "code"),
        Column("user", "Of user"),
        Column("scopes", "May", wide=True),
        Column("state", "State", "state"),
        Column("ends_at", "Ends", "time"),
        Column("used_at", "Last used", "time"),
    ),
    Empty(
        "Tokens with which programs use the API, by their first characters.",
        "None was made.",
        button="Make a token",
        href="/do/make-token",
    ),
    prefix="token.",
    acts=(
        (
            "revoke-token",
            lambda row: {"token": row["id"]} if row["state"] == "valid" else None,
        ),
    ),
)
WEBHOOKS: Final = Table(
    "webhooks",
    "Webhooks",
    (
        Column("url", "Address", link=lambda row: f"/settings/webhooks/{row['id']}"),
        Column("types", "Notices", wide=True),
        Column("state", "State", "state"),
        Column("failed", "Given up in 30 days", "number"),
        Column("made_at", "Added", "time"),
    ),
    Empty(
        "Addresses that notices are posted to, signed.",
        "None was added.",
        button="Add a webhook",
        href="/do/add-webhook",
    ),
    prefix="hook.",
    acts=(
        ("try-webhook", lambda row: {"webhook": row["id"]}),
        ("rotate-webhook", lambda row: {"webhook": row["id"]}),
        ("remove-webhook", lambda row: {"webhook": row["id"]}),
    ),
)
BACKUPS: Final = Table(
    "backups",
    "Backups of this store",
    (
        Column("id", "Backup", "code"),
        Column("at", "Made", "time"),
        Column("bytes", "Bytes", "number"),
        Column("ledger_lines", "Ledger lines", "number"),
    ),
    Empty(
        "Backups that can be restored, the newest first.",
        "None was made.",
        button="Make a backup",
        href="/do/create-backup",
    ),
    prefix="backup.",
)


def show_settings(view: View) -> Response:
    """``GET /settings``."""
    request, store, workspace = view.request, view.store, view.workspace
    tables = [USERS.rows(request, [asdict(one) for one in people.list_users(store)])]
    if view.may("sessions.list"):
        opened = people.list_sessions(workspace, store)
        who, *others = SESSIONS.columns
        place = (
            "/audit?actor={}" if view.may("audit.log") else "/settings?user.q=name:{}"
        )
        linked = replace(
            who, link=lambda row: place.format(quote(row["user"], safe=""))
        )
        sessions = replace(SESSIONS, columns=(linked, *others))
        tables.append(sessions.rows(request, [asdict(one) for one in opened]))
    if view.may("tokens.list"):
        made = people.list_tokens(workspace, store)
        tables.append(TOKENS.rows(request, [asdict(one) for one in made]))
    mail = None
    if view.may("notices.list"):
        found = notices.list_receivers(workspace, store)
        rows = [asdict(one) | {"types": one.types or "all"} for one in found.webhooks]
        tables.append(WEBHOOKS.rows(request, rows))
        mail = found.mail
    if view.may("backup.list"):
        good, _ = backups.found_in(backups.folder_of(workspace))
        kept = [
            {"id": one.id, "at": one.at, "bytes": one.size, "ledger_lines": one.lines}
            for one in good
        ]
        tables.append(BACKUPS.rows(request, kept, sort="-at"))
    return view.show(*tables, mail=mail)


DELIVERIES: Final = Table(
    "deliveries",
    "Deliveries, the newest first",
    (
        Column("message", "Message", "code"),
        Column("type", "Notice"),
        Column("state", "State", "state"),
        Column("attempts", "Tries", "number"),
        Column("at", "Written", "time"),
        Column("due", "Next try", "time"),
        Column("status", "Answer", "number"),
        Column("error", "Last error", wide=True),
    ),
    Empty(
        "Every notice to this address, for 30 days.",
        "Nothing was sent to it yet.",
    ),
    acts=(
        (
            "redeliver-notice",
            lambda row: {"webhook": row["webhook"], "delivery": row["id"]},
        ),
    ),
)
LATEST: Final = 500


def show_webhook(view: View) -> Response:
    """``GET /settings/webhooks/ID``."""
    number = view.request.path_params["webhook"]
    found = notices.show_webhook(view.workspace, view.store, number)
    rows = []
    if view.may("notices.deliveries"):
        rows = [
            {
                "webhook": number,
                "id": one.id,
                "message": one.message,
                "type": one.type,
                "state": one.state,
                "attempts": one.attempts,
                "at": one.at,
                "due": one.due if one.state == "ready" else None,
                "status": one.status,
                "error": one.error,
            }
            for one in notices.deliveries(view.store, number, limit=LATEST)
        ]
    return view.show(
        DELIVERIES.rows(view.request, rows), title=f"Webhook {number}", webhook=found
    )
