"""Lines: the same whatever the blocks, each with the end it was written with."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.encoding import Encoding
from dispatcher.stages.intake.text import MAX_LINE, Lines

UTF8 = Encoding("utf-8", 0, "test")


def lines_of(blocks, encoding=UTF8):
    lines = Lines(iter(blocks), encoding)
    out = []
    for line in lines:
        lines.held.clear()
        out.append(line)
    assert lines.ended
    assert lines.number == len(out)
    return out


@settings(max_examples=150, deadline=None)
@given(
    text=st.text(st.sampled_from("ab\r\n\u2028é漢\x0b"), max_size=40),
    cut=st.integers(1, 6),
    codec=st.sampled_from(["utf-8", "utf-16-le", "shift_jis"]),
)
def test_where_the_blocks_are_cut_does_not_matter(text, cut, codec):
    if codec == "shift_jis":
        text = text.replace("é", "e").replace("\u2028", "あ")
    data = text.encode(codec)
    blocks = [data[i : i + cut] for i in range(0, len(data), cut)]
    expected = io.StringIO(text, newline="").readlines()
    assert lines_of(blocks, Encoding(codec, 0, "test")) == expected


def test_suspicion_covers_the_lines_with_bad_bytes():
    lines = Lines(iter([b"a\nb\n", b"c\n\0\n", b"e\nf\n"]), UTF8)
    suspect = []
    for line in lines:
        lines.held.clear()
        if lines.number <= lines.suspect_until:
            suspect.append(line)
    assert "\0\n" in suspect
    assert "f\n" not in suspect


def test_a_line_without_end_is_refused_before_memory_is_full():
    block = b"x" * (1 << 20)
    with pytest.raises(Invalid, match="line that begins on line 2"):
        lines_of([b"a\n", *[block] * ((MAX_LINE >> 20) + 2)])
