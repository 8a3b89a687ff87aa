"""Proven bounds on the objective, and counting proofs, without a search."""
