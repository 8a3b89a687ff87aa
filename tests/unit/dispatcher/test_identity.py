"""Accounts: how they are written, read from files, and invited."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher import identity
from dispatcher.core.errors import Invalid, Usage


@pytest.mark.parametrize(
    "text", ["", "ann", "/ann", "x/", "X/ann", "x/ ann", "x/a\0b", "x/a\nb", "x/\ud800"]
)
def test_what_is_no_account_is_refused(text):
    with pytest.raises(Usage):
        identity.account_of(text)


@given(st.text(max_size=30))
def test_any_text_is_an_account_or_refused(text):
    try:
        connector, name = identity.account_of(text)
    except Usage:
        return
    assert f"{connector}/{name}" == text


@pytest.mark.parametrize(
    "text",
    [
        "worker\nx/ann\nx/bob\n",
        "name,connector\r\nann,x\r\nbob,x\r\n",
        "\ufeffaccount,quality\nx/ann,1\n\nx/bob,1\n",
        "x/ann\nx/bob\nx/ann",
        '{"worker": "x/ann"}\n{"connector": "x", "name": "bob"}\n',
    ],
)
def test_accounts_are_read_from_a_file(text):
    read = identity.read_accounts(text.encode())
    assert read.names == (("x", "ann"), ("x", "bob"))
    assert read.rejected == ()


def test_bad_lines_of_a_file_are_told_by_line():
    read = identity.read_accounts(b"worker\nx/ann\nbob\nx/\n")
    assert read.names == (("x", "ann"),)
    assert [line for line, _ in read.rejected] == [3, 4]


@pytest.mark.parametrize("data", [b"", b" \n", b"\xff\xfe", b"who\nx/ann\n"])
def test_a_file_that_names_no_account_is_invalid(data):
    with pytest.raises(Invalid):
        identity.read_accounts(data)


def test_an_invite_link_carries_its_code_behind_the_hash():
    assert (
        identity.invite_link("https://t.example/", "v1.x.y")
        == "https://t.example/#k=v1.x.y"
    )
