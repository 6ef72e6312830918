"""The finite world that the audit walks: everything small, up to renaming, and nothing twice."""

from itertools import permutations, product
from math import comb, factorial, perm

from interleaf.audit.worlds import SmallWorld, worlds


def ways(rankers: int, documents: int) -> int:
    """How many rankings hold exactly so many documents together, up to renaming, by inclusion and exclusion."""
    rankings_over = [sum(perm(size, length) for length in range(size + 1)) for size in range(documents + 1)]
    named = 0
    for size, over in enumerate(rankings_over):
        named += (-1 if (documents - size) % 2 else 1) * comb(documents, size) * int(over**rankers)
    return named // factorial(documents)


def count(rankers: int, ragged: int, full: int) -> int:
    """Ragged worlds of up to so many documents, and all permutations of one document more; each with every k."""
    permuted = len(list(product(permutations(range(full)), repeat=rankers - 1)))  # the first names the documents
    return sum(ways(rankers, size) * size for size in range(1, ragged + 1)) + permuted * full


def test_the_worlds_are_as_many_as_there_are_rankings_up_to_renaming() -> None:
    two, three = count(2, ragged=3, full=4), count(3, ragged=2, full=3)
    assert (two, three) == (213, 225)
    assert len(worlds(2, 2)) == two
    assert len(worlds(3, 3)) == three
    assert len(worlds(2, None)) == len(worlds(1, None)) == two + three


def renamed(world: SmallWorld) -> list[SmallWorld]:
    names = world.documents
    swaps = (dict(zip(names, order, strict=True)) for order in permutations(names))
    return [SmallWorld(tuple(tuple(swap[d] for d in ranking) for ranking in world.rankings), world.k) for swap in swaps]


def test_no_two_worlds_are_equal_up_to_renaming_and_none_is_missing() -> None:
    every = set(worlds(2, None))
    for world in every:
        assert [other for other in renamed(world) if other in every] == [world]
        assert world.documents == list("abcd"[: len(world.documents)])
    small = [order for length in range(4) for order in permutations("abc", length)]
    pairs = [rankings for rankings in product(small, repeat=2) if "".join(map("".join, rankings))]
    triples = product(permutations("abc"), repeat=3)
    for rankings in [*pairs, *triples, *product(permutations("abcd"), repeat=2)]:
        size = len(set().union(*rankings))
        names = dict(zip(dict.fromkeys(d for ranking in rankings for d in ranking), "abcd", strict=False))
        first_met = tuple(tuple(names[d] for d in ranking) for ranking in rankings)
        assert {SmallWorld(first_met, k) for k in range(1, size + 1)} <= every


def test_every_cut_from_one_to_all_documents_is_a_world_and_small_worlds_come_first() -> None:
    every = worlds(2, None)
    by_rankings: dict[tuple[tuple[str, ...], ...], set[int]] = {}
    for world in every:
        by_rankings.setdefault(world.rankings, set()).add(world.k)
    for rankings, cuts in by_rankings.items():
        assert cuts == set(range(1, len(set().union(*rankings)) + 1))
    ragged = [world.is_ragged for world in every]
    assert ragged == sorted(ragged)
    sizes = [len(world.documents) for world in every if not world.is_ragged]
    assert sizes == sorted(sizes)
