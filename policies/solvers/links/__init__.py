"""Cosine over a relation, and limits on pairs: components of pairs that meet."""
