"""Connectors and the queue of messages to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from pydantic import AliasPath, Field

from dispatcher.surfaces.api.documents.base import Document, Id, Moment, Name, Request


class Connector(Document):
    """A connector of the settings, and what it declares."""

    name: str
    kind: str
    origin: str
    role: str = Field(validation_alias=AliasPath("manifest", "role"))
    binding: str = Field(validation_alias=AliasPath("manifest", "binding"))
    identity: str = Field(validation_alias=AliasPath("manifest", "identity"))
    content: str = Field(validation_alias=AliasPath("manifest", "content"))
    preview: str = Field(validation_alias=AliasPath("manifest", "preview"))
    idempotency: str = Field(validation_alias=AliasPath("manifest", "idempotency"))
    finds: bool = Field(validation_alias=AliasPath("manifest", "finds"))
    withdraws: bool = Field(validation_alias=AliasPath("manifest", "withdraws"))


class ConnectorHealth(Document):
    """How a connector fares: its circuit, the last error, what its account has left.

    The circuit is ``closed`` while it is called, ``open`` while it rests after failures,
    ``half-open`` when the next call decides.
    """

    circuit: str
    since: Moment | None
    next_try: Moment | None
    failures: int
    error: str
    balance: Annotated[str, Field(description="As it last told; empty: it cannot.")]
    balance_at: Moment | None


class ConnectorWithHealth(Connector):
    """A connector of the settings, what it declares, and how it fares."""

    health: ConnectorHealth


class ConnectorState(Document):
    """Whether a connector works: ``ok``, ``LATER`` or ``FAIL``."""

    state: str
    why: str
    balance: Annotated[str, Field(description="What its account has left, if known.")]


class Enabled(Document):
    """Whether a connector is enabled."""

    name: str
    enabled: bool


class Enable(Request):
    """Whether to enable a connector that was not asked whether it works."""

    untested: bool = False


class Drift(Document):
    """How a market's list differs from what the store knows."""

    listed: int
    differs: bool
    doubtful: bool
    counts: Mapping[str, int]


class Reconcile(Request):
    """Whether to mend differences, and to trust the list if most of it is missing."""

    mend: bool = False
    trust: bool = False


class Message(Document):
    """A message to a connector, without what it shows."""

    id: int
    connector: str
    worker: str
    kind: str
    state: str
    tries: int
    error: str


class RetryMessages(Request):
    """Messages that were given up: by id, or all (of one connector)."""

    ids: Annotated[list[Id], Field(max_length=1000)] = []
    connector: Name | None = None


class Retried(Document):
    """Requeued messages, and their fields that are past a limit by now."""

    messages: int
    kept_back: int


class WithdrawMessages(Request):
    """Messages to take back."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=1000)]


class Withdrawn(Document):
    """Messages taken back, their tasks that ended, and messages that go on."""

    messages: int
    tasks: int
    left: Sequence[int]


_CONNECTOR: Final = "^[a-z][a-z0-9_-]{0,39}$"
_Secret = Annotated[
    str,
    Field(min_length=1, max_length=10_000, json_schema_extra={"format": "password"}),
]


class AddConnector(Request):
    """A connector to set up: its kind, by default its name, its settings, its secret."""

    name: Annotated[str, Field(pattern=_CONNECTOR)]
    kind: Annotated[str, Field(pattern=_CONNECTOR)] | None = None
    settings: Annotated[dict[Name, Name], Field(max_length=50)] = {}
    secret: _Secret | None = None


class Secret(Request):
    """A secret; it is shown by nothing."""

    secret: _Secret


class ConnectorName(Document):
    """The connector that was changed; this process knows it a moment later."""

    name: str
