"""Lists of many requests at once: what waits to be written is first drawn and encoded, in compiled loops.

A request alone is answered by `experiment.show`; under load, most of that time goes into handing small arrays to
compiled code. Here the plain ones, which are nearly all, are drawn together: the same lists, the same rows.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from interleaf import batch
from interleaf.chance import bytes_of
from interleaf.compiled import compiling, is_compiled
from interleaf.errors import InterleafError
from interleaf.experiment import Experiment, Request, assign, show
from interleaf.experiment.settings import COMPARE
from interleaf.experiment.showing import Noted, chance_key
from interleaf.interleaving import warm_composing
from interleaf.methods.arrays import Given
from interleaf.schema import INTERLEAVED
from interleaf.store.contract import Impression
from interleaf.store.encoding import encoded_list, encoded_note
from interleaf.store.numbers import numbers_of, spread

MOST_TOGETHER = 64  # all rankings of these are padded to the longest
log = logging.getLogger("interleaf.serve")


@dataclass(slots=True)
class Draft:
    """A request that waits for its list, and what is kept of it; mixing sets its `documents`, or its `problem`.

    One whose impression has its parts is drawn already, and only waits to be written.
    """

    settings: Experiment
    wanted: Request
    kept: dict[str, Any]
    impression: Impression
    arm: str = INTERLEAVED
    documents: list[str] = field(default_factory=list)
    problem: InterleafError | None = None


def is_plain(settings: Experiment, wanted: Request) -> bool:
    """Whether a request can be drawn with others: all rankings are there, nothing is fixed, its unit sees a mix."""
    method, given = settings.chosen.method, wanted.rankings
    return (
        method.kernels.prepare is None
        and settings.mode == COMPARE
        and not wanted.fixed
        and wanted.page == 1
        and len(given) == len(settings.rankers)
        and all(map(given.get, settings.rankers))
        and is_compiled(method.kernels.compose_batch)
        and assign(settings, _unit(wanted)) == INTERLEAVED
    )


def warm(settings: Experiment) -> None:
    """Load the kernels that compose lists of an experiment, and compile those that are not on disk."""
    warm_composing(settings.method, len(settings.rankers))
    wanted = Request("warm", None, None, {ranker: ["a", "b"] for ranker in settings.rankers})
    with compiling():
        if is_plain(replace(settings, share=1.0, offset=None, holdout=0.0), wanted):
            mix([Draft(settings, wanted, {}, Impression("warm", settings.name, 1, None, 0, 0, {}))])


def work_of(drafts: Sequence[Draft]) -> int:
    """How many places there are to look at: rankings of lists that are drawn together are as long as the longest."""
    given = [draft.wanted.rankings for draft in drafts if draft.impression.parts is None]
    longest = max((len(ranking or ()) for rankings in given for ranking in rankings.values()), default=0)
    return len(given) * longest * max(map(len, given), default=0)


def mix(drafts: Sequence[Draft]) -> None:
    """Draw the lists that are not drawn yet, and encode what is stored of them."""
    alike = defaultdict[tuple[int, int, int], list[Draft]](list)
    for draft in drafts:
        if draft.impression.parts is None and draft.problem is None:
            size = draft.wanted.k or draft.settings.k
            alike[id(draft.settings), draft.impression.version, size].append(draft)
    for (_, _, size), some in alike.items():
        for start in range(0, len(some), MOST_TOGETHER):
            _mix_or_each(some[start : start + MOST_TOGETHER], size)


def _mix_or_each(drafts: Sequence[Draft], size: int) -> None:
    """Together, or one by one where that fails: by one of them, such as rankings too long for the method."""
    try:
        _mix(drafts, size)
    except Exception as problem:
        if not isinstance(problem, InterleafError):
            log.exception("requests could not be mixed together")
        for draft in drafts:
            _alone(draft)


def _mix(drafts: Sequence[Draft], size: int) -> None:
    settings, version = drafts[0].settings, drafts[0].impression.version
    chosen, rankers = settings.chosen, settings.rankers
    flat, names = list[int](), list[list[str]]()
    listed = [[draft.wanted.rankings[name] or () for name in rankers] for draft in drafts]
    for given in listed:
        numbers: dict[str, int] = {}
        number = numbers.setdefault
        for ranking in given:
            flat += [number(document, len(numbers)) for document in ranking]
        names.append(list(numbers))
    lengths = np.array([list(map(len, given)) for given in listed], np.int32)
    rankings, repeats = spread(np.array(flat, np.int32), lengths)
    depth = None if chosen.method.whole_rankings else size
    unions = np.array([len(one) for one in names], np.int32)
    depths = np.minimum(lengths, depth or lengths)
    problems = Given(np.ascontiguousarray(rankings[:, :, :depth]), depths, unions.astype(np.int64))
    keys = [chance_key(settings.name, version, _unit(draft.wanted), draft.wanted.query) for draft in drafts]
    made = chosen.method.kernels.settings((int(lengths.max()),), chosen.parameters, False)
    words = np.frombuffer(b"".join(map(bytes_of, keys)), "<u8").reshape(-1, 2)
    lists = batch.compose(chosen, problems, made, np.arange(len(drafts)), words, size, threads=1)
    needs_choices = "choices" in chosen.method.needs
    blobs = numbers_of(rankings, lengths, unions, lists, chosen.method.has_teams, needs_choices)
    about = INTERLEAVED, chosen.text, rankers, None
    for draft, given, own, shown, count, key, blob, repeated in zip(
        drafts, listed, names, lists.shown.tolist(), lists.counts.tolist(), keys, blobs, repeats.tolist(), strict=True
    ):
        if repeated:
            _alone(draft)
            continue
        draft.documents = [own[number] for number in shown[:count]]
        body = {"query": draft.wanted.query, "key": key, "page": 1, "k": size}
        draft.impression.parts = encoded_list(draft.documents, given, blob, about, body, **draft.kept)


def _unit(wanted: Request) -> str:
    """Who is asking; a request without a unit is its own."""
    return wanted.impression if wanted.unit is None else wanted.unit


def _alone(draft: Draft) -> None:
    """One that is not plain after all; mostly, this says what is wrong with it."""
    try:
        shown = show(draft.settings, draft.impression.version, draft.wanted)
    except InterleafError as problem:
        draft.problem = problem
        return
    draft.documents = shown.documents
    if isinstance(shown.noted, Noted):
        draft.impression.parts = encoded_note(shown.noted, **draft.kept)
