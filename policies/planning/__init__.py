"""Planning by rules: what of a plan only the rules themselves can judge.

Sets of entries state most of a policy exactly, and solvers plan by them. Cosines, looked-up
disclosures, weights of many digits and caps on means are stated by sets that ask for more
than the policy does. Here a plan is asked for by the strict statement first, then by looser
ones, and is judged by the rules.
"""
