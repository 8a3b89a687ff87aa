"""Planning with rules that sets of entries cannot state exactly.

Sets of entries state most of a policy exactly, and solvers plan by them. For cosines,
tabulated disclosures, weights with many digits and caps on means, the sets are stricter
than the policy. A plan is then searched for under the strict sets first, then under
looser ones, and is judged by the rules.
"""
