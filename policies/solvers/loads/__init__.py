"""Linear and quadratic f: what an adversary holds of a set is a load (paper, sections 4.2, 4.3)."""
