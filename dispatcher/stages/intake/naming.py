"""What a run may be called: it is printed, typed and compared."""

from __future__ import annotations

from typing import Final

from dispatcher.core.errors import Usage

LONGEST: Final = 100


def check_run_name(name: str) -> None:
    """Refuse a name that nobody could tell from another, or type.

    Raises
    ------
    Usage
        It is empty, too long, has spaces around it, or does not print.
    """
    if not name or name.strip() != name or len(name) > LONGEST:
        fault = f"it takes 1 to {LONGEST} characters, with no space around them"
    elif not name.isprintable():
        fault = "it has a character that cannot be shown"
    else:
        return
    raise Usage(
        "that is no name for a run",
        why=fault,
        fix="name it in a word or two: --run november",
    )
