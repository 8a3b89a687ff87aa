"""What tries of connectors' walls came to, the last of each connector."""

from __future__ import annotations

import json
from typing import Any, Final

from dispatcher.store.settings import set_setting, setting
from dispatcher.store.transaction import Tx

_NAME: Final = "probed"


def note(tx: Tx, connector: str, told: dict[str, Any]) -> None:
    """Keep what a connector's walls were found to be; what was known before goes."""
    set_setting(tx, _NAME, json.dumps({**_all(tx), connector: told}).encode())


def last(tx: Tx, connector: str) -> dict[str, Any] | None:
    """Return what was kept of a connector; None where nobody has tried."""
    found: dict[str, Any] | None = _all(tx).get(connector)
    return found


def _all(tx: Tx) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(setting(tx, _NAME) or b"{}")
    return found
