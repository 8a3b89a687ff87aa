"""The ledger's lines hash as the evidence format says."""

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.core.canonical import NO_HASH, canonical, line_hash
from dispatcher.ledger import lines

# The vector of the evidence format.
MEMBER = {
    "accepted": [],
    "account": "x/1",
    "at": 1,
    "chain": "A",
    "groups": ["g"],
    "kind": "member",
    "policy": 0,
    "prev": NO_HASH,
    "seq": 1,
}
MEMBER_HASH = "797e4b4f9358a72b29a4c14e291f2d87c5fdac82d74178fc2a14427ab3e93604"
SEAL_ROOT = "a4c509b869d243ea4e35546a80dbd85e7a3002ed0afd6a7c7caf1eb8dace20d7"


def test_first_member_line_hashes_to_the_vector():
    assert line_hash(NO_HASH, MEMBER) == MEMBER_HASH


def test_first_seal_over_one_chain_has_the_root_of_the_vector():
    assert lines.seal_root({"A": MEMBER_HASH}, NO_HASH) == SEAL_ROOT


def _tree(leaves):
    """RFC 9162, 2.1.1, word by word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    left, right = _tree(leaves[:k]), _tree(leaves[k:])
    return hashlib.sha256(b"\1" + left + right).digest()


@given(st.lists(st.binary(max_size=8), max_size=40))
def test_tree_is_that_of_the_rfc(leaves):
    assert lines.merkle_root(leaves) == _tree(leaves).hex()


@given(
    account=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    entries=st.lists(st.from_regex(r"r[0-9a-f]{24}\.[0-9]{1,3}", fullmatch=True)),
    seq=st.integers(1, 10**9),
)
def test_fast_exposure_hashes_are_those_of_the_lines(account, entries, seq):
    form = lines.ExposureForm.of(
        account=account, at=7, cause="plan", chain="a1", policy=3
    )
    prev = MEMBER_HASH
    hashes, text = form.grow(entries, prev=prev, seq=seq, whole=True)
    assert form.grow(entries, prev=prev, seq=seq, whole=False) == (hashes, b"")
    texts = text.decode().split("\n")  # an account may hold other line ends
    assert texts.pop() == ""
    for i, (entry, whole) in enumerate(zip(entries, texts, strict=True)):
        own = hashes[lines.HASH_BYTES * i : lines.HASH_BYTES * (i + 1)].hex()
        line = {
            "account": account,
            "at": 7,
            "cause": "plan",
            "chain": "a1",
            "entry": entry,
            "kind": "exposure",
            "policy": 3,
            "prev": prev,
            "seq": seq,
        }
        assert line_hash(prev, line) == own
        assert whole == canonical({**line, "hash": own})
        assert form.text(entry, prev=prev, seq=seq, own=own) == whole
        assert json.loads(whole)["account"] == account
        prev, seq = own, seq + 1
    assert len(hashes) == lines.HASH_BYTES * len(entries)
