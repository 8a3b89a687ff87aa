"""Plug-ins: load connectors from a literal list or by entry point, and check them.

Only configured plug-ins are ever loaded, so an installed package that nobody named runs
no code here. A loaded plug-in is checked before use: it is a
:class:`connectors.base.Plugin`, has its own name, and opens to a market or feed that
has every verb of its role and declares what the plug-in declared.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from importlib.metadata import Distribution, EntryPoint, entry_points
from pathlib import Path
from typing import Final

from connectors.base import (
    ConnectorError,
    Feed,
    Manifest,
    Market,
    Plugin,
    Role,
    Settings,
)
from dispatcher.core.errors import Invalid
from dispatcher.core.input_files import open_input

GROUP: Final = "sparsi_dispatcher.connectors"
BUILT_IN: Final[Mapping[str, str]] = {
    "folder": "connectors.folder:CONNECTOR",
    "inhouse": "connectors.inhouse:CONNECTOR",
    "label-studio": "connectors.label_studio:CONNECTOR",
    "mturk": "connectors.mturk:CONNECTOR",
    "pickup": "connectors.pickup:CONNECTOR",
    "prolific": "connectors.prolific:CONNECTOR",
    "s3": "connectors.s3:CONNECTOR",
    "segment": "connectors.segment:CONNECTOR",
    "sftp": "connectors.sftp:CONNECTOR",
    "turkle": "connectors.turkle:CONNECTOR",
    "webhook": "connectors.webhook:CONNECTOR",
}
_PAYS: Final = ("approve", "bonus", "paid")
_VERBS: Final = {
    Role.MARKET: ("publish", "find", "withdraw", "arrive", "collect"),
    Role.FEED: ("send", "find"),
}
_CODE: Final = frozenset({".py", ".so", ".pyd", ".pth"})
_MAX_SECRET: Final = 1 << 16


def available() -> dict[str, str]:
    """Return the kinds of connectors that could be loaded, and their origins.

    Returns
    -------
    dict
        Kind -> ``built in``, or the package that brings it, its version and the digest
        of its files: a plug-in runs in this process, so operators see what they trust.
    """
    found = dict.fromkeys(BUILT_IN, "built in")
    for point in entry_points(group=GROUP):
        if point.name not in found:
            found[point.name] = _package(point.dist) if point.dist else "unknown"
    return dict(sorted(found.items()))


def _package(dist: Distribution) -> str:
    """Name a package, its version and a digest of its code as it is on the disk."""
    files = [file for file in dist.files or () if file.suffix in _CODE]
    digest = hashlib.sha256()
    for file in sorted(files, key=str):
        place = Path(str(file.locate()))
        content = place.read_bytes() if place.is_file() else b"missing"
        digest.update(f"{file}\0{hashlib.sha256(content).hexdigest()}\0".encode())
    shown = f"sha256:{digest.hexdigest()[:16]}" if files else "its files are elsewhere"
    return f"{dist.name} {dist.version} ({shown})"


def load_plugin(kind: str) -> Plugin:
    """Load one kind of connector and check what was loaded.

    Raises
    ------
    Invalid
        There is none of that name, or two, or it is no plugin.
    """
    target = BUILT_IN.get(kind)
    if target is not None:
        module, _, name = target.partition(":")
        return _checked(kind, getattr(importlib.import_module(module), name))
    points = [point for point in entry_points(group=GROUP) if point.name == kind]
    if not points:
        raise Invalid(
            f"there is no connector of kind {kind!r}",
            why="it is neither built in nor brought by an installed package",
            fix=f"use one of: {', '.join(available())}; or install its package",
        )
    return _checked(kind, load_point(_only(points, "connector of kind", kind)))


def only_point(group: str, what: str, name: str) -> EntryPoint:
    """Return the one entry point of a name.

    Raises
    ------
    Invalid
        There is none, or two.
    """
    every = entry_points(group=group)
    points = [point for point in every if point.name == name]
    if not points:
        known = ", ".join(sorted({point.name for point in every})) or "none"
        raise Invalid(
            f"there is no {what} {name!r}",
            why="no installed package brings it",
            fix=f"install its package; installed: {known}",
        )
    return _only(points, what, name)


def _only(points: Sequence[EntryPoint], what: str, name: str) -> EntryPoint:
    """Return the only one; several names of one target count as one."""
    if len({point.value for point in points}) > 1:
        raise Invalid(
            f"two packages bring a {what} {name!r}",
            why=", ".join(sorted(_origin(point) for point in points)),
            fix="uninstall one of them",
        )
    return points[0]


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name if point.dist else 'unknown'} ({point.value})"


def load_point(point: EntryPoint) -> object:
    """Load what an entry point names.

    Raises
    ------
    Invalid
        It cannot be loaded.
    """
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        # third-party import: whatever it raises, the plug-in is unusable
        raise Invalid(
            f"the plug-in {point.name!r} cannot be loaded",
            why=f"{_origin(point)} raised {type(error).__name__}",
            fix="reinstall its package, or name another one",
        ) from error


def _checked(kind: str, loaded: object) -> Plugin:
    if not isinstance(loaded, Plugin):
        raise Invalid(
            f"what is installed as connector {kind!r} is no connector",
            why=f"it is a {type(loaded).__name__}, expected connectors.base.Plugin",
            fix="tell the author: the entry point must name a Plugin",
        )
    if loaded.name != kind:
        raise Invalid(
            f"the connector {kind!r} calls itself {loaded.name!r}",
            why="the entry point and the manifest must bear one name",
            fix="tell the author",
        )
    return loaded


def manifest_of(name: str, values: Mapping[str, str]) -> Manifest:
    """Return what a configured connector declares, without opening it.

    Raises
    ------
    Invalid
        There is no such kind.
    """
    return load_plugin(values.get("kind", name)).declared(values)


def open_connector(
    name: str,
    values: Mapping[str, str],
    *,
    directory: Path,
    secret: bytes = b"",
    inside: bool = False,
) -> Market | Feed:
    """Open one connector as the settings describe it.

    Parameters
    ----------
    name : str
        The operator's name for it; also its kind, unless `values` has ``kind``.
    values : Mapping[str, str]
        Its section of the settings. ``kind`` and ``secret_file`` are read here, the
        others by the connector.
    directory : Path
        Where relative paths begin.
    secret : bytes
        Used where there is no ``secret_file``.
    inside : bool
        Whether paths may not leave ``directory``.

    Raises
    ------
    Invalid
        No such kind, a wrong setting, or a plugin that breaks the protocol.
    """
    plugin = load_plugin(values.get("kind", name))
    own = {key: text for key, text in values.items() if key not in _OURS}
    if "secret_file" in values:
        secret = _read_secret(name, directory / values["secret_file"])
    try:
        opened = plugin.open(Settings(own, secret, directory, inside))
        manifest = plugin.declared(own)
    except ConnectorError as error:
        raise Invalid(
            f"connector {name!r}: {error.what}", why=error.why, fix=error.fix
        ) from error
    except (Exception, SystemExit) as error:
        # third-party code: whatever it raises, there is no connector
        raise Invalid(
            f"the connector {name!r} cannot be opened",
            why=f"the plug-in {plugin.name!r} raised {type(error).__name__}",
            fix="tell its author, or name another one",
        ) from error
    verbs = (*_VERBS[manifest.role], *(_PAYS if manifest.pays else ()))
    lacking = [verb for verb in verbs if not callable(_attribute(opened, verb))]
    if lacking:
        raise Invalid(
            f"the connector {plugin.name!r} lacks {', '.join(lacking)}",
            why=f"what declares itself so has {', '.join(verbs)}",
            fix="tell the author: connectors.testing.suite would have found it",
        )
    if _attribute(opened, "manifest") != manifest:
        raise Invalid(
            f"the connector {plugin.name!r} opens to something else than it declares",
            why="its manifest differs from the plugin's",
            fix="tell the author",
        )
    return opened


_OURS: Final = ("kind", "secret_file")


def _attribute(opened: object, name: str) -> object:
    return getattr(opened, name, None)


def _read_secret(name: str, path: Path) -> bytes:
    try:
        with open_input(path) as file:
            secret = file.read(_MAX_SECRET + 1).strip()
    except OSError as error:
        raise Invalid(
            f"connector {name!r}: its secret file cannot be read",
            why=error.strerror or type(error).__name__,
            fix="name a file that the dispatcher's user may read",
        ) from error
    if not secret or len(secret) > _MAX_SECRET:
        raise Invalid(
            f"connector {name!r}: its secret file is empty or too large",
            fix=f"put the secret, 1 to {_MAX_SECRET} bytes, into it",
        )
    return secret


def open_connectors(
    configured: Mapping[str, Mapping[str, str]],
    *,
    directory: Path,
    secrets: Mapping[str, bytes] | None = None,
) -> dict[str, Market | Feed]:
    """Open all connectors of the settings, by the operator's names.

    Parameters
    ----------
    configured : Mapping
        Name -> its section of the settings.
    directory : Path
        Where relative paths begin.
    secrets : Mapping, optional
        Name -> secret that the store keeps for it (``inhouse``: the signing key).

    Raises
    ------
    Invalid
        The first that cannot be opened.
    """
    kept = secrets or {}
    return {
        name: open_connector(
            name, values, directory=directory, secret=kept.get(name, b"")
        )
        for name, values in configured.items()
    }
