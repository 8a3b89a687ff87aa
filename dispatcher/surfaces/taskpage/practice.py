"""The practice round: made-up parts that teach the page and its keys.

Nothing of a record is in it; nothing is booked, counted or kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dispatcher.stages.serving import compose, judged
from policies.answers.validation import Invalid, Mark, check
from policies.policy import Field


@dataclass(frozen=True)
class Lesson:
    """One made-up part.

    Attributes
    ----------
    field : Field
        How it is asked for.
    shown : str
        The text to read; of an image the name of the static file.
    right : str or Mark
    lesson : str
        What to do.
    keys : str
        How to do it with keys; ``{alt}`` is the modifier of the worker's machine.
    """

    field: Field
    shown: str
    right: str | Mark
    lesson: str
    keys: str = ""

    @property
    def image(self) -> bool:
        """Whether it is an image."""
        return self.shown.endswith(".svg")

    def fault(self, form: Mapping[str, str], say: Callable[..., str]) -> str:
        """Say what is wrong with an answer; empty if it is right."""
        marks = {mark.value: mark for mark in Mark}
        mark = marks.get(form.get("outcome", ""))
        text = None if self.image else self.shown
        _, found = judged(self.field, text, compose(self.field, form), mark)
        if isinstance(found, Invalid):
            return say(found.reason)
        if isinstance(self.right, Mark):
            fits = found.mark is self.right
        else:
            fits = found == check(self.field, self.right)
        return "" if fits else say("That is not it yet: look once more, and try again")


def lessons(say: Callable[..., str]) -> tuple[Lesson, ...]:
    """Return all lessons, in the language of a worker."""
    cash, card, transfer = say("cash"), say("by card"), say("by bank transfer")
    return (
        Lesson(
            Field("street", ask="transcribe", question=say("Which street is it?")),
            "Maple Street 12",
            "Maple Street 12",
            say("Type what you see, letter by letter, and submit."),
            say("With keys: type, then Enter. The next part comes at once."),
        ),
        Lesson(
            Field(
                "paid",
                ask="choose",
                choices=(cash, card, transfer),
                question=say("How was it paid?"),
            ),
            say("Paid by card on delivery"),
            card,
            say("Choose what fits, and submit."),
            say("With keys: 2 chooses the second one, then Enter."),
        ),
        Lesson(
            Field("due", ask="date", question=say("By which day is it due?")),
            "31/01/2026",
            "2026-01-31",
            say("Type the date as you see it; you need not rearrange it."),
        ),
        Lesson(
            Field(
                "item", ask="transcribe", question=say("Which word is written here?")
            ),
            "practice-side.svg",
            "lantern",
            say(
                "The image lies on its side. Turn it with the tools below it, and type the word."
            ),
            say(
                "With keys: {alt} R turns it, {alt} + makes it larger, {alt} 0 makes it fit again."
            ),
        ),
        Lesson(
            Field(
                "amount", ask="number", question=say("Which amount is written here?")
            ),
            "practice-smudge.svg",
            Mark.ILLEGIBLE,
            say("Nobody can read this one. Never guess: say that you cannot read it."),
            say("With keys: {alt} I, then Enter. It works while you type, too."),
        ),
    )
