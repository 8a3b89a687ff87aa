"""What serving takes and gives: who is there, what is shown, what came of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Final

from policies.answers import Mark
from policies.document.policy import Field

# A browser drops most control characters silently; a worker is to see that they are
# there. Their pictures stand in Unicode at 2400 onwards.
_PICTURES: Final = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n\r"},
    127: "\u2421",
}


@dataclass(frozen=True)
class Terms:
    """How tasks are leased and picked.

    Attributes
    ----------
    lease : float
        Seconds that a worker has for one task, > 0.
    extensions : int
        How often the worker may have as much time again, >= 0.
    patience : float
        Seconds for which a new plan's pairs are kept for their own workers.
    apart : float
        Seconds that must lie between two tasks of one record for one worker, unless
        another task lay between them: in a row they could be told to belong together.
        Not for ever: the last fields of a record would else never be asked.
    """

    lease: float = 600.0
    extensions: int = 10
    patience: float = 900.0
    apart: float = 15.0

    def __post_init__(self) -> None:
        if not self.lease > 0:
            msg = f"lease is {self.lease}, expected seconds > 0"
            raise ValueError(msg)
        for name in ("extensions", "patience", "apart"):
            if not getattr(self, name) >= 0:
                msg = f"{name} is {getattr(self, name)}, expected >= 0"
                raise ValueError(msg)


@dataclass(frozen=True)
class Present:
    """A worker who has arrived and may work.

    Attributes
    ----------
    account_id : int
    number : int
        Of the invite; when the account's is raised the worker is out.
    """

    account_id: int
    number: int


@dataclass(frozen=True)
class Showing:
    """One field as it is shown to one worker; its exposure is durable.

    Attributes
    ----------
    task_id : int
    token : str
        Opaque public name of the task.
    field : Field
        How it is asked for.
    media : str
        ``text/plain`` or an image type.
    content : bytes
        The shown form.
    draft : str
        What was typed so far, as :func:`~dispatcher.stages.serving.compose` made it.
    left : int
        Whole seconds of the lease that remain.
    """

    task_id: int
    token: str
    field: Field
    media: str
    content: bytes = dataclass_field(repr=False)
    draft: str = dataclass_field(repr=False)
    left: int = 0

    @property
    def text(self) -> str:
        """The content as text, with control characters made visible, one for one."""
        return self.content.decode("utf-8", "replace").translate(_PICTURES)


@dataclass(frozen=True)
class Given:
    """What a worker submits: the form's fields, or one of the two marks."""

    form: Mapping[str, str] = dataclass_field(repr=False)
    mark: Mark | None = None


@dataclass(frozen=True)
class Saved:
    """The answer is kept; the same for the first submission and for a repeated one."""

    words: str = "Your answer was saved."


@dataclass(frozen=True)
class Wrong:
    """The answer is not valid for what is asked; nothing was lost.

    Attributes
    ----------
    reason : str
        For the worker; does not repeat the answer.
    showing : Showing
        The same task again, with what was typed.
    """

    reason: str
    showing: Showing
