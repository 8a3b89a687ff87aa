"""Numbers with their nouns, as commands, pages and plans write them."""


def count(number: int, one: str, more: str = "") -> str:
    """Write a number with its noun: 1 field, 2 fields.

    ``more`` is the plural where it is not the singular with an s.
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"
