"""The workspace of an operator: a directory with settings, store and policy."""

from __future__ import annotations

import hmac
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dispatcher.core.errors import DispatcherError, Usage

if TYPE_CHECKING:  # the store loads SQLAlchemy: not for --help
    from connectors.base import Feed, Manifest, Market
    from dispatcher.core.config import Config
    from dispatcher.preflight import Preflight
    from dispatcher.store import Clock, Store
    from dispatcher.store.audit_log import Act
    from dispatcher.store.vault import KeyFile


STORE_FILE: Final = "DISPATCHER_STORE_FILE"
"""Environment variable: path of a file with the store's URL, and maybe its password."""


def wall_clock() -> int:
    """Microseconds since 1970 UTC: the one place where the clock is read."""
    return time.time_ns() // 1000


@dataclass
class Workspace:
    """A directory, and the store and settings that it refers to.

    Attributes
    ----------
    directory : Path
    store : str or None
        Location of the store, overriding the settings.
    config_file : Path or None
        The settings, if they are not ``dispatcher.toml`` of the directory.
    clock : Clock
    actor : str
        Who acts, for the audit log: the surface that calls the operations, or a person.
    """

    directory: Path = Path()
    store: str | None = None
    config_file: Path | None = None
    clock: Clock = field(default=wall_clock, kw_only=True)
    actor: str = field(default="operator", kw_only=True)

    @cached_property
    def config(self) -> Config:
        """The settings of the directory, read once."""
        from dispatcher.core.config import load_config

        environment = dict(os.environ)
        if self.store is not None:
            environment["DISPATCHER_STORE"] = self.store
        return load_config(self.directory, environment, file=self.config_file)

    @cached_property
    def store_url(self) -> str:
        """URL or path of the store: ``--store``, else a private file, else settings."""
        from dispatcher.core.config import read_private, store_location

        if self.store_is_private:
            return read_private(Path(os.environ[STORE_FILE]))
        return store_location(self.config, self.directory)

    @property
    def store_is_private(self) -> bool:
        """Whether the URL comes from a file, so that it may hold a password."""
        return self.store is None and bool(os.environ.get(STORE_FILE))

    def open_store(self, *, older: bool = False) -> Store:
        """Open the store; it must have this program's schema, or may have an ``older``."""
        from dispatcher.core import log
        from dispatcher.store import open_store

        log.configure_command()
        store = open_store(
            self.store_url,
            older=older,
            password_allowed=self.store_is_private,
            cache_mib=self.config.cache_mib,
            key_file=self.key_file,
        )
        self.ship(store)
        return store

    def new_act(self, actor: str, operation: str, *, target: str, reason: str) -> Act:
        """Return an act that a command does; see :class:`Act` for what is given."""
        from dispatcher.store.audit_log import Act

        return Act(actor, "command", operation, self.clock, target, reason)

    def open_to_book(self) -> Store:
        """Open the store for an act that writes into its ledger.

        Raises
        ------
        StoreEdited
            It differs from its ledger: nothing may be judged by it.
        """
        from dispatcher.ledger.comparison import refuse_edited

        store = self.open_store()
        try:
            refuse_edited(store)
        except BaseException:
            store.close()
            raise
        return store

    def open_connectors(
        self, store: Store, names: Iterable[str] | None = None
    ) -> dict[str, Market | Feed]:
        """Open connectors of the settings, all or those named; none is called.

        A task page of our own (kind ``inhouse``) signs with a key of the store, each by
        another one.
        """
        from dispatcher.core.plugins import open_connectors
        from dispatcher.identity import HOME

        configured = self.config.connectors
        if names is not None:
            configured = {name: configured[name] for name in names}
        key = store.key("token-key")
        return open_connectors(
            configured,
            directory=self.directory,
            secrets={
                name: key if name == HOME else hmac.digest(key, name.encode(), "sha256")
                for name, values in configured.items()
                if values.get("kind", name) == HOME
            },
        )

    def preflight(
        self, store: Store, opened: Mapping[str, Market | Feed] | None = None
    ) -> Preflight:
        """Find what cannot be sent; connectors not yet `opened` are opened if possible.

        Only connectors with accounts are opened here.
        """
        from dispatcher.core.plugins import manifest_of
        from dispatcher.preflight import Preflight
        from dispatcher.store import accounts

        declared: dict[str, Manifest] = {}
        broken: dict[str, DispatcherError] = {}
        for name, values in self.config.connectors.items():
            try:
                declared[name] = manifest_of(name, values)
            except DispatcherError as error:
                broken[name] = error
        if opened is None:
            with store.read() as tx:
                used = {account.connector for account in accounts.all_accounts(tx)}
            found: dict[str, Market | Feed] = {}
            for name in sorted(used & declared.keys()):
                try:
                    found |= self.open_connectors(store, [name])
                except DispatcherError as error:
                    broken[name] = error
            opened = found
        return Preflight(
            opened,
            link=self.config.surfaces.task_page,
            broken=broken,
            declared=declared,
        )

    @property
    def shipped(self) -> Path | None:
        """Folder of the shipped ledger; None where nothing is shipped."""
        ship = self.config.ledger.ship
        return self.directory / ship if ship else None

    def ship(self, store: Store) -> None:
        """Ship every line of a store's ledger to the configured folder."""
        from dispatcher.ledger.shipping import attach

        if self.shipped is not None:
            attach(store, self.shipped, limit=self.config.ledger.segment_mib * 2**20)

    @property
    def anchor(self) -> Path | None:
        """File that roots of seals are appended to; None where there is none."""
        anchor = self.config.ledger.anchor
        return self.directory / anchor if anchor else None

    def anchor_roots(self, store: Store) -> None:
        """Append the roots of new seals to the file of the settings."""
        from dispatcher.ledger.shipping import store_id
        from dispatcher.ledger.shipping.anchors import anchor

        if self.anchor is not None:
            anchor(store, self.anchor, owner=store_id(store))

    def check_anchor(self, store: Store) -> int:
        """Check that a store has every root of the file; return how many there are.

        Raises
        ------
        LedgerAhead
            It does not: it was put back from an older state.
        """
        from dispatcher.ledger.shipping import store_id
        from dispatcher.ledger.shipping.anchors import check_anchor

        if self.anchor is None:
            return 0
        return check_anchor(store, self.anchor, owner=store_id(store))

    @cached_property
    def key_file(self) -> KeyFile:
        """Where the key is that opens the store's values."""
        from dispatcher.core.config import key_file_location
        from dispatcher.store.vault import KeyFile

        return KeyFile(*key_file_location(self.config, self.directory, os.environ))

    @property
    def policy_path(self) -> Path:
        """The policy file of the directory."""
        return self.directory / self.config.policy

    def spare(self, output: Path, *inputs: Path) -> None:
        """Refuse to overwrite an input, the store, the settings or the policy.

        Raises
        ------
        Usage
            The output is the store, the settings, the policy or one of the inputs.
        """
        from dispatcher.core.config import key_file_location

        settings = self.config_file or self.directory / "dispatcher.toml"
        kept = [Path(self.store_url), settings, self.policy_path]
        kept += [Path(f"{kept[0]}{tail}") for tail in ("-wal", "-shm")]
        # not self.key_file: it loads the store, which solving an instance does not need
        kept.append(key_file_location(self.config, self.directory, os.environ)[0])
        if any(_is_same(output, path) for path in (*kept, *inputs)):
            raise Usage(
                f"{output} is in use by this very command",
                why="the output would be written over the store, the settings, the "
                "policy or the input",
                fix="name another file",
            )


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them does not exist: they differ
        return False
