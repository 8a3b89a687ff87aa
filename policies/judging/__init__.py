"""Judging plans, and proving without a search that a plan exists.

- ``judge``: the one judge, by which every plan is recomputed before it counts;
- ``certificates``, ``chances``: proofs by counting and by the local lemma.
"""
