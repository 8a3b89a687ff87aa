"""The assignment problem as numbers, with opaque indices for entries and adversaries.

- ``problem``: Problem and Plan, with Goal and caps on means; ``construction`` builds
  the parts of a Problem from plain numbers;
- ``measures``: step, linear, quadratic: how f follows from a load;
- ``sets``: sensitive sets as columns; ``disclosure``: loads and f of sets;
- ``links``: relations of two people over places; ``aggregates``: f over all sets;
- ``weights``, ``utility_functions``: the worth of showing an entry;
- ``coalitions``: adversaries who pool; ``objective``: what a plan maximises;
- ``exact_numbers``, ``fraction_sums``: exact arithmetic;
- ``problem_arrays``: a Problem as flat arrays for compiled kernels.
"""
