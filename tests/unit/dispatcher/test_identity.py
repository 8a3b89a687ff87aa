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


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("v1.x.y", ("inhouse", "v1.x.y")),
        ("https://t.example/#k=v1.x.y", ("inhouse", "v1.x.y")),
        (" https://t.example/#k=turkle~v1.x.y\n", ("turkle", "v1.x.y")),
        ("turkle~v1.x.y", ("turkle", "v1.x.y")),
        ("", ("inhouse", "")),
    ],
)
def test_a_code_is_read_from_a_link_or_as_it_is(text, code):
    assert identity.read_code(text) == code


@given(
    st.sampled_from(["inhouse", "turkle"]), st.from_regex(r"[\w.-]+", fullmatch=True)
)
def test_the_code_of_a_link_is_read_back(connector, code):
    link = identity.invite_link("https://t.example", code, connector)
    assert identity.read_code(link) == (connector, code)


@pytest.mark.parametrize(
    "text",
    [
        "worker,group\nx/ann,1\nx/bob,2\ny/ann,1\nx/cat,3\ny/bob,2\n",
        "Group,Account,more\n1,x/ann,a\n2,x/bob\n\n 1 , y/ann ,c\n2,y/bob,d\n",
        '{"worker": "x/ann", "group": "1"}\n{"account": "x/bob", "group": "2"}\n'
        '{"worker": "y/ann", "group": " 1"}\n{"worker": "y/bob", "group": "2"}\n',
    ],
    ids=["csv", "other columns", "jsonl"],
)
def test_accounts_with_the_same_group_are_one_worker(text):
    """An account that is alone in its group says nothing."""
    read = identity.read_groups(text.encode())
    assert read.parts == (("x/ann", "y/ann"), ("x/bob", "y/bob"))
    assert read.rejected == ()


def test_lines_of_groups_that_say_nothing_are_told_by_line():
    text = "worker,group\nx/ann,1\nann,1\nx/bob,\n,1\ny/ann,1\n"
    read = identity.read_groups(text.encode())
    assert read.parts == (("x/ann", "y/ann"),)
    assert [line for line, _ in read.rejected] == [3, 4, 5]


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"worker\nx/ann\n", b"group\n1\n", b"x/ann,1\n"]
)
def test_a_file_that_groups_no_accounts_is_invalid(data):
    with pytest.raises(Invalid):
        identity.read_groups(data)
