"""Names made from keys: opaque, unlinkable, and told from forged ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.core import keys
from dispatcher.core.keys import folded

KEY = bytes(range(32))
OTHER = bytes(32)
IDS = st.integers(0, 2**63 - 1)


@given(st.lists(IDS, max_size=20))
def test_a_token_leads_back_to_its_task(ids):
    tokens = keys.task_tokens(KEY, ids)
    assert [keys.task_id_of(KEY, token) for token in tokens] == ids


@given(IDS)
def test_a_token_of_another_key_is_no_token(task_id):
    assert keys.task_id_of(KEY, keys.task_token(OTHER, task_id)) is None


@given(IDS, st.integers(0, 31), st.sampled_from("0123456789abcdef"))
def test_an_edited_token_is_no_token(task_id, place, digit):
    token = keys.task_token(KEY, task_id)
    edited = token[:place] + digit + token[place + 1 :]
    assert keys.task_id_of(KEY, edited) == (task_id if edited == token else None)


@given(IDS)
def test_an_offer_key_leads_back_to_its_message_in_its_own_store_alone(message_id):
    key = keys.offer_key(KEY, message_id)
    assert keys.message_id_of(KEY, key) == message_id
    assert keys.message_id_of(OTHER, key) is None
    assert keys.task_id_of(KEY, key) is None


def test_an_offer_key_fits_where_the_shortest_market_keeps_it():
    assert len(keys.offer_key(KEY, 2**63 - 1)) <= 64


@given(st.text(max_size=40))
def test_any_text_is_read_without_a_fault(text):
    assert keys.task_id_of(KEY, text) is None


def test_neighbouring_tasks_have_tokens_that_share_no_beginning():
    first, second = keys.task_tokens(KEY, [1, 2])
    assert first[:8] != second[:8]


def test_upper_case_is_not_a_second_spelling_of_a_token():
    token = keys.task_token(KEY, 77)
    assert keys.task_id_of(KEY, token.upper()) is None


def test_equal_keys_have_equal_names_and_kinds_are_apart():
    one, same = keys.pseudonyms(KEY, "r", ["rx-1", b"rx-1"])
    assert one == same == keys.pseudonym(KEY, "r", "rx-1")
    assert len(one) == 25
    assert keys.pseudonym(KEY, "s", "rx-1")[1:] != one[1:]
    assert keys.pseudonym(OTHER, "r", "rx-1") != one


# -- values ------------------------------------------------------------------------


@given(st.binary(max_size=200), IDS)
def test_a_sealed_value_opens_in_its_own_place_only(value, row):
    cipher = keys.data_cipher(KEY)
    place = keys.place_of("entry.shown", row)
    sealed = keys.seal(cipher, place, value, bytes(12))
    assert keys.unseal(cipher, place, sealed) == value
    for elsewhere in ("entry.shown", "answer.raw"):
        other = keys.place_of(elsewhere, row + (elsewhere == "entry.shown"))
        with pytest.raises(keys.BadSeal):
            keys.unseal(cipher, other, sealed)
    with pytest.raises(keys.BadSeal):
        keys.unseal(keys.data_cipher(OTHER), place, sealed)


@given(st.binary(min_size=1, max_size=30), st.data())
def test_every_changed_bit_and_every_cut_is_told(value, data):
    cipher = keys.data_cipher(KEY)
    place = keys.place_of("record.key", 1)
    sealed = keys.seal(cipher, place, value, bytes(range(12)))
    bit = data.draw(st.integers(0, 8 * len(sealed) - 1))
    changed = bytearray(sealed)
    changed[bit // 8] ^= 1 << bit % 8
    for damaged in (
        bytes(changed),
        sealed[: data.draw(st.integers(0, len(sealed) - 1))],
    ):
        with pytest.raises(keys.BadSeal):
            keys.unseal(cipher, place, damaged)


def test_folding_keeps_different_keys_apart():
    keys = ["7", "70", "rx-7", "rx-70", "rx7", "a", "b", "0", "100"]
    assert len({folded(key) for key in keys}) == len(keys)
    assert folded("ＲＸ\u00a0-007") == folded("rx-7")
