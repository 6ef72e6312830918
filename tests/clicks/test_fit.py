"""Fitted click models: known truths are found again, likelihoods are the oracles', and a real log is foretold."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from interleaf.clicks.fit import Fitted, FittedCascade, fit_cascade, fit_position_based, rank_only
from interleaf.clicks.result_pages import ResultPages, parse_yandex
from interleaf.errors import ClickError, DataError
from interleaf.importers.yandex import read_yandex
from interleaf.kernels.arrays import Array
from tests.oracles import clicks as oracle
from tests.support.paths import SHARED

NAVER = SHARED / "data" / "naver_clara2" / "CLARA2SearchLog_beta.gz"
needs_naver = pytest.mark.skipif(not NAVER.exists(), reason="the Naver click log is not beside the repository")

QUERIES, DOCUMENTS, RANKS, PAGES = 20, 12, 6, 40_000
EXAMINATION = np.array([1, 0.8, 0.55, 0.4, 0.3, 0.25])
CONTINUATION = np.array([0.85, 0.7, 0.6, 0.5, 0.4])
FITS: dict[str, Callable[[ResultPages], Fitted]] = {
    "rank only": rank_only,
    "position based": lambda pages: fit_position_based(pages, 2),
    "cascade": lambda pages: fit_cascade(pages, True, 2),
    "closed form": lambda pages: fit_cascade(pages, True, 2, rounds=0),
    "cascade that stops anywhere": lambda pages: fit_cascade(pages, False, 2),
}
EVERY_FIT = pytest.mark.parametrize("fit", FITS.values(), ids=list(FITS))


def shuffled_lists(seed: int) -> tuple[np.random.Generator, Array, Array, Array]:
    """Queries, lists in random order, and the attraction of each (query, document)."""
    chance = np.random.default_rng(seed)
    queries = chance.integers(QUERIES, size=PAGES)
    documents = np.argsort(chance.random((PAGES, DOCUMENTS)), axis=1)[:, :RANKS]
    return chance, queries, documents, chance.beta(1.5, 4, size=(QUERIES, DOCUMENTS))


def pages_of(queries: Array, documents: Array, clicks: Array) -> ResultPages:
    return ResultPages(queries, documents, clicks, np.arange(len(queries)), QUERIES, DOCUMENTS)


def position_based_pages(seed: int) -> tuple[ResultPages, Array]:
    chance, queries, documents, attraction = shuffled_lists(seed)
    odds = EXAMINATION * attraction[queries[:, None], documents]
    return pages_of(queries, documents, chance.random(odds.shape) < odds), attraction


def cascade_pages(seed: int, stop_needs_click: bool) -> tuple[ResultPages, Array]:
    chance, queries, documents, attraction = shuffled_lists(seed)
    clicks, reading = np.zeros(documents.shape, np.bool_), np.ones(PAGES, np.bool_)
    for rank in range(RANKS):
        clicks[:, rank] = reading & (chance.random(PAGES) < attraction[queries, documents[:, rank]])
        coin = clicks[:, rank] if stop_needs_click else np.True_
        reading &= ~(coin & (chance.random(PAGES) >= np.append(CONTINUATION, 1)[rank]))
    return pages_of(queries, documents, clicks), attraction


def small_pages(clicks: list[list[int]], lengths: list[int]) -> ResultPages:
    """One query with documents 0, 1, 2, ... in this order, so many of them a page."""
    clicked = np.array(clicks, np.bool_)
    ranks = np.arange(clicked.shape[1])
    documents = np.where(ranks < np.array(lengths)[:, None], ranks, -1)
    queries = np.zeros(len(clicked), np.int64)
    return ResultPages(queries, documents, clicked, np.arange(len(clicked)), 1, clicked.shape[1])


RAGGED = small_pages(
    [[1, 0, 0], [0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]], [3, 3, 3, 2, 2, 1, 3, 0]
)


# Known truths


def test_the_position_based_model_finds_the_truth_again() -> None:
    pages, attraction = position_based_pages(seed=1)
    fitted = fit_position_based(pages, strength=1)
    assert fitted.report.converged
    assert fitted.examination == pytest.approx(EXAMINATION, abs=0.03)
    assert fitted.attraction.reshape(QUERIES, DOCUMENTS) == pytest.approx(attraction, abs=0.08)
    assert np.abs(fitted.attraction - attraction.ravel()).mean() < 0.015


@pytest.mark.parametrize("stop_needs_click", [True, False])
def test_the_cascade_finds_the_truth_again(stop_needs_click: bool) -> None:
    pages, attraction = cascade_pages(2, stop_needs_click)
    fitted = fit_cascade(pages, stop_needs_click, strength=1)
    assert fitted.report.converged
    assert fitted.continuation == pytest.approx(CONTINUATION, abs=0.06)
    assert fitted.attraction.reshape(QUERIES, DOCUMENTS) == pytest.approx(attraction, abs=0.08)
    assert np.abs(fitted.attraction - attraction.ravel()).mean() < 0.015


def test_the_closed_form_counts_as_guo_does_and_underrates_reading_on() -> None:
    """Attraction: clicks over places down to the last click. Continuation: the share of clicks that are not last."""
    pages, _ = cascade_pages(2, stop_needs_click=True)
    fitted = fit_cascade(pages, strength=1e-9, rounds=0)
    below = np.cumsum(pages.clicks[:, ::-1], axis=1)[:, ::-1]
    last = (below == 1) & pages.clicks
    share = 1 - last.sum(axis=0)[:-1] / pages.clicks.sum(axis=0)[:-1]
    assert fitted.continuation == pytest.approx(share, abs=1e-3)
    read = (below > 0) | ~pages.clicks.any(axis=1, keepdims=True)
    chosen = (pages.queries[:, None] == 3) & (pages.documents == 5)
    assert fitted.attraction[3 * DOCUMENTS + 5] == pytest.approx(pages.clicks[chosen].mean() / read[chosen].mean())
    assert (fitted.continuation < CONTINUATION - 0.1).all()
    exact = fit_cascade(pages, strength=1)
    assert exact.log_likelihood(pages) > fitted.log_likelihood(pages)


def test_each_model_foretells_its_own_world_best() -> None:
    for pages, right in (
        (position_based_pages(1)[0], "position based"),
        (cascade_pages(1, True)[0], "cascade"),
        (cascade_pages(1, False)[0], "cascade that stops anywhere"),
    ):
        training, held = pages.split(0.2, 1)
        likelihood = {name: fit(training).log_likelihood(held) for name, fit in FITS.items()}
        assert max(likelihood, key=likelihood.__getitem__) == right


# How fitting goes


@pytest.mark.parametrize(
    "fit",
    [
        lambda pages: fit_position_based(pages, 2, rounds=60, tolerance=-1),
        lambda pages: fit_cascade(pages, True, 2, rounds=60, tolerance=-1),
        lambda pages: fit_cascade(pages, False, 2, rounds=60, tolerance=-1),
    ],
    ids=["position based", "cascade", "cascade that stops anywhere"],
)
@pytest.mark.parametrize("pages", [RAGGED, cascade_pages(3, True)[0]], ids=["ragged", "cascade"])
def test_em_never_lowers_its_objective(fit: Callable[[ResultPages], FittedCascade], pages: ResultPages) -> None:
    report = fit(pages).report
    assert report.rounds == 60
    assert not report.converged
    gains = np.diff(report.objectives)
    assert gains.min() > -1e-8
    assert report.objectives[-1] > report.objectives[0]


@EVERY_FIT
def test_fitting_is_deterministic(fit: Callable[[ResultPages], Fitted]) -> None:
    assert np.array_equal(fit(RAGGED).click_probabilities(RAGGED), fit(RAGGED).click_probabilities(RAGGED))


def test_the_strength_is_chosen_on_held_out_sessions_of_the_training_pages() -> None:
    pages = position_based_pages(4)[0].take(np.arange(2000))
    report = fit_position_based(pages).report
    training, held = pages.split(0.2, 0)
    again = {s: fit_position_based(training, s).log_likelihood(held) / len(held) for s, _ in report.trials}
    assert dict(report.trials) == again
    assert again[report.strength] == max(again.values())
    assert fit_position_based(pages, 8).report.trials == ()
    assert fit_cascade(pages).report.strength in dict(report.trials)


def test_an_unseen_pair_falls_back_to_the_mean() -> None:
    pages = position_based_pages(5)[0].take(np.arange(500))
    training = pages.take(pages.queries != 7)
    held = pages.take(pages.queries == 7)
    position = fit_position_based(training, 4)
    assert position.click_probabilities(held) == pytest.approx(
        np.broadcast_to(position.examination * position.mean, held.documents.shape)
    )
    cascade = fit_cascade(training, strength=4)
    assert cascade.attractions(held) == pytest.approx(np.broadcast_to(cascade.fallback, held.documents.shape))


# What a fitted model says


@EVERY_FIT
def test_the_probabilities_of_all_patterns_of_a_page_sum_to_one(fit: Callable[[ResultPages], Fitted]) -> None:
    fitted = fit(RAGGED)
    patterns = np.array(list(product((False, True), repeat=3)))
    every = small_pages(patterns.tolist(), [3] * 8)
    chances = np.exp(fitted.log_likelihoods(every))
    assert chances.sum() == pytest.approx(1)
    assert chances @ patterns == pytest.approx(fitted.click_probabilities(every)[0])


@pytest.mark.parametrize("stop_needs_click", [True, False])
def test_the_cascade_has_the_likelihood_of_the_oracle(stop_needs_click: bool) -> None:
    fitted = fit_cascade(RAGGED, stop_needs_click, 2)
    attraction = [Fraction(float(value)) for value in fitted.attraction]
    stop = [*(1 - Fraction(float(value)) for value in fitted.continuation), Fraction(0)]
    truth = oracle.cascade(range(3), attraction, stop, stop_needs_click)
    every = small_pages([list(pattern) for pattern in truth], [3] * len(truth))
    assert np.exp(fitted.log_likelihoods(every)) == pytest.approx([float(chance) for chance in truth.values()])


def test_the_position_based_model_has_the_likelihood_of_the_oracle() -> None:
    fitted = fit_position_based(RAGGED, 2)
    examination, attraction = (
        [Fraction(float(value)) for value in values] for values in (fitted.examination, fitted.attraction)
    )
    truth = oracle.position_based(examination, attraction)
    every = small_pages([list(pattern) for pattern in truth], [3] * len(truth))
    assert np.exp(fitted.log_likelihoods(every)) == pytest.approx([float(chance) for chance in truth.values()])


def test_rank_only_is_the_share_of_clicks_at_each_rank() -> None:
    assert rank_only(RAGGED).rates == pytest.approx([3 / 7, 2 / 6, 1 / 4])
    pages = position_based_pages(6)[0]
    assert np.array_equal(rank_only(pages).click_probabilities(pages)[0], pages.clicks.mean(axis=0))


def test_the_last_rank_holds_for_longer_pages() -> None:
    short = RAGGED.take(np.array([3, 4, 5]))
    for fit in FITS.values():
        assert fit(short).click_probabilities(RAGGED).shape == (8, 3)
    assert rank_only(short).click_probabilities(RAGGED)[0] == pytest.approx([2 / 3, 1 / 2, 1 / 2])


class Oracle(Fitted):
    """Knows the clicks with this certainty."""

    def __init__(self, certainty: float) -> None:
        self.certainty = certainty

    def click_probabilities(self, pages: ResultPages) -> Array:
        return np.where(pages.shown, np.where(pages.clicks, self.certainty, 1 - self.certainty), 0.0)


@pytest.mark.parametrize(("certainty", "perplexity"), [(1, 1), (0.5, 2), (0.25, 4)])
def test_perplexity_is_one_for_certainty_and_two_for_a_coin(certainty: float, perplexity: float) -> None:
    found = Oracle(certainty).perplexity(RAGGED)
    assert found.overall == pytest.approx(perplexity)
    assert found.by_rank == pytest.approx((perplexity,) * 3)
    assert found.mean_of_ranks == pytest.approx(perplexity)
    assert Oracle(certainty).log_likelihood(RAGGED) == pytest.approx(np.log(certainty) * 17)


def test_a_click_held_impossible_is_infinitely_surprising() -> None:
    training = RAGGED.take(np.array([0, 1]))
    assert rank_only(training).log_likelihood(RAGGED) == -np.inf
    assert rank_only(training).perplexity(RAGGED).by_rank[1] == np.inf
    for fit in (fit_position_based, fit_cascade):
        assert np.isfinite(fit(training, strength=1).log_likelihood(RAGGED))  # priors hold nothing impossible


# To a model for simulation


def test_a_fitted_model_becomes_a_click_model_with_grades() -> None:
    pages, _ = position_based_pages(7)
    fitted = fit_position_based(pages, 2)
    model, grade_of = fitted.to_click_model(4)
    assert model.examination == pytest.approx(EXAMINATION, abs=0.05)
    assert len(model.attraction) == 4
    assert list(model.attraction) == sorted(model.attraction)
    grades = grade_of.on(pages)
    assert grade_of(int(pages.queries[0]), int(pages.documents[0, 2])) == grades[0, 2]
    assert np.bincount(grades.ravel()) / grades.size == pytest.approx([0.25] * 4, abs=0.02)
    mean = fitted.shown @ fitted.attraction / fitted.shown.sum()
    assert np.mean(np.array(model.attraction)[grades]) == pytest.approx(mean)
    judged = {document: grade_of(0, document) for document in range(DOCUMENTS)}
    person = type(model)(model.examination, model.attraction, judged)
    best = max(judged, key=judged.__getitem__)
    assert float(sum(p for p in person.distribution([best]).values())) == 1
    assert float(person.distribution([best])[(1,)]) == pytest.approx(model.attraction[judged[best]])


def test_equal_attractions_share_a_grade_and_an_unseen_pair_has_the_grade_of_the_mean() -> None:
    pages = small_pages([[1, 0], [1, 0], [0, 0]], [2, 2, 2])
    fitted = fit_position_based(pages, 1)
    model, grade_of = fitted.to_click_model(50)
    assert len(model.attraction) == 2
    assert grade_of(0, 0) == 1
    assert fitted.to_click_model(1)[0].attraction == pytest.approx([fitted.attraction.mean()])
    wide = ResultPages(*pages_parts(pages), 2, 2)
    fitted = fit_position_based(wide, 1)
    unseen = fitted.to_click_model(50)[1](1, 0)
    assert unseen == int(fitted.mean >= fitted.attraction.max())


def pages_parts(pages: ResultPages) -> tuple[Array, Array, Array, Array]:
    return pages.queries, pages.documents, pages.clicks, pages.sessions


# Bad pages


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"documents": RAGGED.documents[:, :2]}, r"must both be \[pages, ranks\]"),
        ({"clicks": RAGGED.clicks.astype(int)}, "True or False"),
        ({"queries": RAGGED.queries[:3]}, "one number per page"),
        ({"queries": RAGGED.queries + 1}, r"a query has a number outside 0 \.\. 0; .* raise query_count"),
        ({"documents": RAGGED.documents + 1}, r"a document has a number outside 0 \.\. 2"),
        ({"documents": np.where(RAGGED.shown, RAGGED.documents, -2)}, r"a document has a number outside"),
        ({"documents": RAGGED.documents[:, ::-1], "clicks": RAGGED.clicks & False}, "a gap"),
        ({"clicks": ~RAGGED.clicks}, "a click where nothing was shown"),
    ],
)
def test_pages_that_cannot_be_are_refused(changed: dict[str, Array], says: str) -> None:
    with pytest.raises(ClickError, match=says):
        replace(RAGGED, **changed)  # type: ignore[arg-type]


def test_fits_that_cannot_be_are_refused() -> None:
    for fit in FITS.values():
        with pytest.raises(ClickError, match="the 2 pages to fit on hold no click"):
            fit(RAGGED.take(np.array([1, 4])))
    for strength in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ClickError, match="give a finite number above 0"):
            fit_position_based(RAGGED, strength)
    with pytest.raises(ClickError, match="1 sessions cannot be split"):
        fit_cascade(RAGGED.take(np.array([0])))
    with pytest.raises(ClickError, match="0 levels"):
        fit_position_based(RAGGED, 1).to_click_model(0)
    with pytest.raises(ClickError, match="fitted on 1 queries and 3 documents, these pages number 20 and 12"):
        fit_cascade(RAGGED, strength=1).log_likelihood(position_based_pages(1)[0])
    with pytest.raises(ClickError, match="no document on these pages"):
        rank_only(RAGGED).perplexity(RAGGED.take(np.array([7])))


def test_a_split_keeps_sessions_whole_and_hangs_on_the_seed_alone() -> None:
    pages = position_based_pages(8)[0].take(np.arange(1000))
    pages = ResultPages(*pages_parts(pages)[:3], np.arange(1000) // 4, QUERIES, DOCUMENTS)
    training, held = pages.split(0.3, 5)
    assert not set(training.sessions) & set(held.sessions)
    assert len(set(held.sessions)) == 75
    assert len(training) + len(held) == 1000
    assert np.array_equal(pages.split(0.3, 5)[1].sessions, held.sessions)
    assert not np.array_equal(pages.split(0.3, 6)[1].sessions, held.sessions)
    for share in (0, 1, 1.5):
        with pytest.raises(ClickError, match="give a number between 0 and 1"):
            pages.split(share, 5)


# The Yandex format

LOG = """s1 0 Q q1 0 a b c
s1 5 C b
s2 6 Q q1 0 b a
s1 7 Q q2 0 c d c
s1 8 C a
s1 9 C c
s1 9 C c
s2 9 C z
s3 9 C a

s2 9 Q q2 3 e
"""


def tabbed(text: str) -> str:
    return text.replace(" ", "\t")


def check_log(pages: ResultPages) -> None:
    assert pages.documents.tolist() == [[0, 1, 2], [1, 0, -1], [2, 3, 2], [4, -1, -1]]
    assert pages.queries.tolist() == [0, 0, 1, 1]
    assert pages.sessions.tolist() == [0, 1, 0, 1]
    assert np.argwhere(pages.clicks).tolist() == [[0, 0], [0, 1], [2, 0]]
    assert (pages.query_count, pages.document_count) == (2, 5)
    reading = pages.reading
    assert reading is not None
    assert (reading.queries, reading.documents) == (("q1", "q2"), ("a", "b", "c", "d", "e"))
    assert reading.latest_by_rank == (2, 1, 0)
    assert (reading.earlier, reading.not_shown, reading.repeated) == (1, 2, 1)
    assert str(reading).startswith(
        "6 clicks: 3 on the page shown last in the session, 1 on an earlier one, 2 on nothing"
    )


def test_the_reader_takes_plain_files_gzip_and_padded_lines(tmp_path: Path) -> None:
    plain, packed, padded = tmp_path / "log", tmp_path / "log.gz", tmp_path / "padded"
    plain.write_text(tabbed(LOG))
    packed.write_bytes(gzip.compress(tabbed(LOG).encode()))
    padded.write_bytes(tabbed(LOG).replace("\n", "\t\t\t\r\n").encode())
    for path in (plain, packed, padded):
        check_log(read_yandex(path))
    check_log(read_yandex(str(plain)))
    check_log(parse_yandex(tabbed(LOG).splitlines()))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("s1 0 X q1", r"line 2: the third field is 'X'; it must be 'Q' or 'C'"),
        ("s1", r"line 2: the third field is None"),
        ("s1 0 Q q1 0", r"line 2: 5 fields, but a line of kind Q has session, time, Q, query, region and urls"),
        ("s1 0 C", r"line 2: 3 fields, but a line of kind C has session, time, C and one url"),
        ("s1 0 C a b", r"line 2: 5 fields"),
        ("s1 0 Q q1 0 a  c", r"line 2: field 7 is empty"),
        (" 0 Q q1 0 a", r"line 2: field 1 is empty"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(line: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "made.log"
    path.write_text(tabbed(f"s0 0 Q q 0 a b\n{line}\n"))
    with pytest.raises(DataError, match=rf"made\.log, {says}"):
        read_yandex(path)


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "made.log"
    whole = gzip.compress(tabbed(LOG).encode())
    for content, says in (
        (b"", "shows no page"),
        (b"\n\n", "shows no page"),
        (b"\xff\xfe\x00", "neither UTF-8 text nor a complete gzip"),
        (whole[:-9], "neither UTF-8 text nor a complete gzip"),
        (whole[:20] + b"\0\0" + whole[22:], "neither UTF-8 text nor a complete gzip"),
        (b"s 0 Q q 0 a b", "line 1: the third field is None"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"made\.log.*{says}"):
            read_yandex(path)
    with pytest.raises(FileNotFoundError):
        read_yandex(tmp_path / "none")


# A real log


@cache
def naver() -> ResultPages:
    return read_yandex(NAVER)


@needs_naver
def test_the_naver_log_is_read_to_the_last_click() -> None:
    pages = naver()
    assert pages.documents.shape == (31_564, 10)
    assert pages.shown.all()
    assert pages.query_count == len(set(pages.queries)) == 1_951
    assert len(set(pages.sessions)) == 18_522
    reading = pages.reading
    assert reading is not None
    assert reading.latest_by_rank == (5619, 2182, 1074, 584, 525, 258, 206, 179, 131, 131)
    assert sum(reading.latest_by_rank) == 10_889
    assert (reading.earlier, reading.not_shown, reading.repeated) == (4, 720, 1_565)
    assert pages.clicks.sum() == 10_889 + 4 - 1_565


@needs_naver
def test_fitted_models_foretell_held_out_sessions_of_the_naver_log_better_than_ranks_do() -> None:
    training, held = naver().split(0.2, seed=0)
    baseline = rank_only(training)
    for fitted in (fit_position_based(training), fit_cascade(training), fit_cascade(training, stop_needs_click=False)):
        assert fitted.report.converged
        assert fitted.log_likelihood(held) / len(held) > baseline.log_likelihood(held) / len(held) + 0.05
        assert fitted.perplexity(held).overall < baseline.perplexity(held).overall - 0.005
        better = np.array(fitted.perplexity(held).by_rank) < baseline.perplexity(held).by_rank
        assert better[:6].all()
