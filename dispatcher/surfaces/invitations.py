"""Personal links to the task page: whose door they are for, and their code.

A link is ``BASE/#k=CODE`` for workers of ``inhouse`` and ``BASE/#k=CONNECTOR~CODE`` for
those of another connector, which alone can tell whether the code is one of its own.
"""

from __future__ import annotations

from typing import Final

HOME: Final = "inhouse"
"""The connector of a code that names none."""


def invite_link(base: str, code: str, connector: str = HOME) -> str:
    """Link of an invitation.

    Parameters
    ----------
    base : str
        Where workers reach the page: ``https://tasks.example.org``.
    code : str
        As the connector's ``invite`` makes it: no ``~`` in it.
    connector : str
        The operator's name for it.
    """
    named = code if connector == HOME else f"{connector}~{code}"
    return f"{base.rstrip('/')}/#k={named}"


def read_code(text: str) -> tuple[str, str]:
    """Read what a browser brings, a whole link or its code: (connector, code)."""
    connector, _, code = text.strip().rpartition("#k=")[2].rpartition("~")
    return connector or HOME, code
