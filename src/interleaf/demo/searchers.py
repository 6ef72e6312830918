"""Simulated users whose wanted entry is known, so that the true quality of each ranker is known, too.

A user wants an entry, searches for its name or for words of its text, reads the list from the top, and clicks by a
cascade model: the entry itself has grade 2, others of the same class or module grade 1, all else grade 0. Everything
is a function of a seed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from statistics import NormalDist, fmean

from interleaf.clicks import find_cascade
from interleaf.client import Client
from interleaf.demo.engine import Engine, LibraryEntry, leaf, words_of
from interleaf.errors import InterleafError
from interleaf.kernels.randomness import UNIT, Keyed, key_of, pick_weighted


def reciprocal_ranks(engine: Engine, ranker: str, searches: Iterable[PersonSearch], k: int = 10) -> list[float]:
    """1 / rank of the wanted entry in the first k results of each search, 0 if it is not among them.

    Their mean is the mean reciprocal rank (Voorhees, 1999).
    """
    rankings = [(search.wanted, engine.search(search.query, ranker, k)) for search in searches]
    return [1 / (ranking.index(wanted) + 1) if wanted in ranking else 0.0 for wanted, ranking in rankings]


def truth(engine: Engine, rankers: Sequence[str], searches: Sequence[PersonSearch]) -> str:
    """The true quality of the rankers, in a sentence."""
    means = {ranker: fmean(reciprocal_ranks(engine, ranker, searches)) for ranker in rankers}
    figures = ", ".join(f"{ranker} {mean:.3f}" for ranker, mean in means.items())
    best = max(means, key=lambda ranker: means[ranker])
    return (
        f"The simulated people's goals are known: {best} is really the best. "
        f"Mean reciprocal rank of the wanted entry, over {len(searches):,} searches: {figures}."
    )


WANTED, BESIDE, ELSE = 2, 1, 0
CLICKS = find_cascade("navigational", grades=3)
SECONDS, SPREAD = (8.0, 20.0, 75.0), 0.6  # median dwell by grade; standard deviation of its logarithm
VISITS = (0.35, 0.25, 0.15, 0.1, 0.1, 0.05)  # probabilities that a person makes one, two, ... visits
RETURNS = 40  # maximum number of other people between two visits of one
BY_NAME = 0.5  # share of queries that are the exact name
DEVICES, SHARES = ("desktop", "phone"), (0.7, 0.3)
SMALL = frozenset(("and", "are", "can", "for", "from", "into", "its", "not", "that", "the", "this", "with", "you"))


@dataclass(frozen=True)
class PersonSearch:
    """One person, one query, and the entry that they want."""

    unit: str
    device: str
    query: str
    wanted: str
    key: str


def searches(entries: Mapping[str, LibraryEntry], people: int, seed: int = 1) -> list[PersonSearch]:
    """The searches of simulated people in order of time: new people arrive in turn, and some come back later.

    >>> from interleaf.demo.engine import LibraryEntry
    >>> entries = {"json.dumps": LibraryEntry("json.dumps", "function", "json", "json.dumps(obj)", "Serialize obj.")}
    >>> [(search.unit, search.query) for search in searches(entries, people=2, seed=1)]
    [('person-1', 'dumps obj'), ('person-2', 'dumps obj')]
    """
    names, visits = list(entries), []
    for person in range(1, people + 1):
        chance = Keyed(key_of(("demo people", seed, person)))
        device = DEVICES[pick_weighted(chance, SHARES, len(SHARES))]
        place = person
        for visit in range(pick_weighted(chance, VISITS, len(VISITS)) + 1):
            wanted = names[chance.pick(len(names))]
            key = key_of(("demo clicks", seed, person, visit))
            search = PersonSearch(f"person-{person}", device, _query(entries[wanted], chance), wanted, key)
            visits.append(((place, person, visit), search))
            place += 1 + chance.pick(RETURNS)
    return [search for _, search in sorted(visits, key=lambda visit: visit[0])]


def clicks(search: PersonSearch, documents: Sequence[str]) -> list[tuple[int, float]]:
    """The ranks that the person clicks on a list of ids, each with the dwell in seconds."""
    grades = {one: grade(one, search.wanted) for one in documents}
    chance = Keyed(key_of((search.key, "dwell")))
    ranks = list[tuple[int, float]]()
    for rank in replace(CLICKS, grades=grades).sample(documents, key=search.key):
        lognormal = exp(NormalDist(0, SPREAD).inv_cdf(((chance.bits() >> 11) + 0.5) * UNIT))  # with median 1
        ranks.append((rank, round(SECONDS[grades[documents[rank - 1]]] * lognormal, 1)))
    return ranks


def grade(document: str, wanted: str) -> int:
    """The relevance grade of an entry for a person who wants another one.

    >>> [grade(one, "json.dumps") for one in ("json.dumps", "json.loads", "json", "pickle.dumps")]
    [2, 1, 1, 0]
    """
    if document == wanted:
        return WANTED
    owner = wanted.rpartition(".")[0]
    return BESIDE if owner and owner in (document, document.rpartition(".")[0]) else ELSE


def _query(entry: LibraryEntry, chance: Keyed) -> str:
    """The name, or a word of it with one or two words from the beginning of the text."""
    name = leaf(entry.id)
    if chance.toss(BY_NAME):
        return name
    words = dict.fromkeys(words_of(entry.text.partition("\n\n")[0]))
    rest = [word for word in words if len(word) > 2 and word not in SMALL]
    parts = words_of(name)
    query = [parts[chance.pick(len(parts))]]
    for _ in range(1 + chance.pick(2)):
        left = [word for word in rest if word not in query]
        if left:
            query.append(left[chance.pick(len(left))])
    return " ".join(query)


THREADS = 4


def serve(engine: Engine, client: Client, experiment: str, rankers: Sequence[str], search: PersonSearch) -> None:
    """Answer one search as a search service does, and report the clicks.

    Ids of impression and events follow from the seed, so a repeated search counts once.
    """
    rankings, captions = engine.answers(search.query, rankers)
    shown = client.interleave(
        experiment,
        rankings,
        unit=search.unit,
        query=search.query,
        captions=captions,
        attributes={"device": search.device},
        impression=search.key,
    )
    about = {"impression": shown.impression, "kind": "click"}
    client.events(
        about | {"event": f"{search.key}:{rank}", "rank": rank, "dwell": dwell}
        for rank, dwell in clicks(search, shown.documents)
    )


class Crowd:
    """Threads that serve searches in order, at a limited rate; `problem` is the error that stopped them, if any."""

    def __init__(
        self, engine: Engine, client: Client, experiment: str, rankers: Sequence[str], searches: Sequence[PersonSearch],
        per_second: float,
    ) -> None:  # fmt: skip
        self._engine, self._client, self._experiment, self._rankers = engine, client, experiment, rankers
        self._searches, self._per_second = searches, per_second
        self._next, self._lock, self._ended = 0, threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(THREADS)]
        self._began = time.monotonic()
        self.problem: InterleafError | None = None

    def start(self) -> None:
        """Start the threads."""
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    @property
    def has_gone(self) -> bool:
        """Whether all searches are done."""
        return self._next >= len(self._searches) and not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Stop new searches, and wait for those in progress."""
        self._ended.set()
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                place, self._next = self._next, self._next + 1
            due = self._began + place / self._per_second
            if place >= len(self._searches) or self._ended.wait(max(0.0, due - time.monotonic())):
                return
            try:
                serve(self._engine, self._client, self._experiment, self._rankers, self._searches[place])
            except InterleafError as error:
                self.problem = error
                self._ended.set()
