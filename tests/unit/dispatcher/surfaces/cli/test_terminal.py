"""What is printed moves no cursor, turns no text, and fits a screen."""

from dispatcher.surfaces.cli.terminal import LONGEST_LINE, cut, plain


def test_what_moves_or_turns_is_written_as_an_escape():
    assert plain("a\x1b[2J\nb\u202ec\udcff") == r"a\x1b[2J\nb\u202ec\udcff"


def test_letters_of_any_script_and_joined_emoji_stay():
    text = "na\u00efve\u00a0\u65e5\u672c \U0001f468\u200d\U0001f469"
    assert plain(text) == text


def test_line_ends_stay_where_lines_are_meant():
    assert plain("a\n\tb\r", lines=True) == "a\n\tb\\r"


def test_long_lines_lose_their_middle_only():
    text = f"{'a' * 9999}\nshort\n{'b' * LONGEST_LINE}"
    first, *rest = cut(text).split("\n")
    assert len(first) <= LONGEST_LINE + 10
    assert rest == text.split("\n")[1:]
