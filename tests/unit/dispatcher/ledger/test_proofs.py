"""Inclusion proofs: the tree of RFC 9162, whatever its size."""

import pytest

from dispatcher.core.errors import Invalid
from dispatcher.ledger.lines import merkle_root
from dispatcher.ledger.proofs import check, inclusion_path, root_by_path


@pytest.mark.parametrize("size", range(1, 18))
def test_every_leaf_leads_to_the_root_by_its_path_and_by_no_other(size):
    leaves = [b"leaf %d" % i for i in range(size)]
    root = merkle_root(leaves)
    for index, leaf in enumerate(leaves):
        path = inclusion_path(leaves, index)
        assert root_by_path(leaf, index, size, path) == root
        assert root_by_path(b"other", index, size, path) != root
        assert root_by_path(leaf, (index + 1) % size, size, path) != root or size == 1
        assert root_by_path(leaf, index, size, [*path, "00" * 32]) is None
        if path:
            assert root_by_path(leaf, index, size, path[:-1]) is None


def test_paths_are_those_of_the_rfc():
    # RFC 9162, 2.1.5: a tree of seven leaves; the path of d0 is [b, h, l].
    leaves = [b"d%d" % i for i in range(7)]
    assert len(inclusion_path(leaves, 0)) == 3
    assert len(inclusion_path(leaves, 6)) == 2  # [i, k]: d6 is carried up once


@pytest.mark.parametrize(
    "document", [{}, {"schema": "dispatcher.proof/1"}, {"schema": 3}]
)
def test_what_is_no_proof_is_told_so(document):
    with pytest.raises(Invalid, match="does not hold"):
        check(document)


def test_an_index_outside_of_the_tree_leads_nowhere():
    assert root_by_path(b"x", 3, 3, []) is None
