"""Lists and credit of every method in batch, on all cores, and how their cost grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from benchmarks.world import World, impressions, world
from interleaf.interleaving import batch
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import Method, methods

RANKERS = (2, 5, 15, 40)
DOCUMENTS = (10, 100)
REPEATS = 3


def tables(rows: int) -> Iterator[str]:
    """Calls a second by method, rankers and documents a ranking; then how cost grows."""
    columns = [(rankers, documents) for documents in DOCUMENTS for rankers in RANKERS]
    for what, seconds in (
        ("lists", list_seconds),
        ("credit and preference of all pairs (default scheme)", credit_seconds),
    ):
        yield f"\n{what}: calls a second in batch, k = 10; columns: rankers x documents a ranking"
        yield f"{'':22}" + "".join(f"{f'{rankers} x {documents}':>12}" for rankers, documents in columns)
        for row in comparing():
            cells = [f"{1 / seconds(world(row.name, *c, rows)):,.0f}" if takes(row, c[0]) else "-" for c in columns]
            yield f"{row.name:22}" + "".join(f"{cell:>12}" for cell in cells)
    yield from scheme_table(rows)
    yield "\ngrowth: how many times longer one list and its credit take; three clicks, 100 documents a ranking"
    yield f"{'':22}{'k 10 to 20':>18}{'k 20 to 40':>18}{'10 to 20 rankers':>18}{'20 to 40 rankers':>18}"
    for row in comparing():
        if takes(row, RANKERS[-1]):
            yield f"{row.name:22}" + "".join(f"{ratio:>18.2f}" for ratio in growth(row.name, rows))


def scheme_table(rows: int) -> Iterator[str]:
    """Impressions a second that team draft credits by each variant, and the time of each over that of the plain one."""
    variants = ("click", "click_deduped", "click_list", "click_place")
    yield "\ncredit of team draft by variant, 2 rankers, k = 10: impressions a second, and the time over that of click"
    yield f"{'documents a ranking':22}" + "".join(f"{name:>24}" for name in variants)
    for documents in DOCUMENTS:
        made = world("team_draft", 2, documents, rows)
        lists = batch.compose(made.chosen, made.given, made.settings, made.queries, made.keys, made.k)
        shown = impressions(made, lists, unshown=True)
        costs = []
        for name in variants:
            scheme = made.chosen.scheme(name, 2)
            arguments = (made.chosen, scheme, shown, lists.counts, made.clicks[: len(lists.counts)])
            costs.append(best_of(partial(batch.credit_known, *arguments)) / len(lists.counts))
        cells = (f"{1 / cost:,.0f} ({cost / costs[0]:.1f})" for cost in costs)
        yield f"{documents:<22}" + "".join(f"{cell:>24}" for cell in cells)


def comparing() -> list[Method]:
    """The methods that compare rankers."""
    return [row for row in methods() if row.schemes]


def takes(row: Method, rankers: int) -> bool:
    """Whether the method compares so many rankers."""
    return row.rankers[1] is None or rankers <= row.rankers[1]


def growth(method: str, rows: int) -> list[float]:
    """The ratios of cost for twice k, twice more, for twice the rankers, twice more."""
    deeper = [_both(world(method, 10, 100, rows, k)) for k in (10, 20, 40)]
    wider = [_both(world(method, rankers, 100, rows)) for rankers in (10, 20, 40)]
    return [after / before for costs in (deeper, wider) for before, after in pairwise(costs)]


def _both(made: World) -> float:
    clicks = np.zeros_like(made.clicks)
    clicks[:, [0, 2, 5]] = True
    return list_seconds(made) + credit_seconds(made, clicks, pairs=False)


def list_seconds(made: World) -> float:
    """What one list costs, prepared settings given (for optimized: the solution from the cache)."""

    def compose() -> batch.DrawnLists:
        return batch.compose(made.chosen, made.given, made.settings, made.queries, made.keys, made.k)

    return best_of(compose) / len(made.queries)


def credit_seconds(made: World, clicks: Array | None = None, pairs: bool = True) -> float:
    """What it costs to credit one list, and to compare every pair of rankers by that if `pairs`."""
    rankers = len(made.problems[0].rankers)
    rows = max(1000, min(len(made.queries), 2_000_000 // rankers**2)) if pairs else len(made.queries)
    some = World(**{**vars(made), "queries": made.queries[:rows], "keys": made.keys[:rows]})
    lists = batch.compose(some.chosen, some.given, some.settings, some.queries, some.keys, some.k)
    shown, scheme = impressions(some, lists), made.chosen.scheme(None, rankers)
    clicked = (made.clicks if clicks is None else clicks)[: len(some.queries)]
    work = batch.preferences if pairs else batch.credit
    return best_of(lambda: work(made.chosen, scheme, shown, lists.counts, clicked)) / len(some.queries)


def best_of(function: Callable[[], object]) -> float:
    """The shortest of a few runs, after one that compiles."""
    function()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)
