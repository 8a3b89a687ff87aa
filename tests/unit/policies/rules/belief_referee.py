"""The definition of a posterior disclosure, world by world and subset by subset."""

from fractions import Fraction
from itertools import combinations


def posterior(beliefs, held, true):
    """How far the belief in the true world's secret rose."""

    def chance(entries, secret):
        return sum(
            world.chance
            for world in beliefs.worlds
            if all(world.entries[d] == true.entries[d] for d in entries)
            and (not secret or world.secret == true.secret)
        )

    prior = chance((), secret=True)
    if prior == 1:
        return Fraction(0)
    post = chance(held, secret=True) / chance(held, secret=False)
    return max(Fraction(0), (post - prior) / (1 - prior))


def closure(function, held):
    """Highest value over all subsets of what is held."""
    return max(
        function(chosen)
        for size in range(len(held) + 1)
        for chosen in combinations(sorted(held), size)
    )
