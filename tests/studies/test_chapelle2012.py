"""C12's study: its printed figures agree with each other, the traffic is that of the log, and the truth is found."""

import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from interleaf import Interleaving, credit
from interleaf.errors import DataError
from interleaf.metrics.absolute import METRICS, QueryPages
from interleaf.simulate import Judged, People, World, synthetic
from interleaf.simulate.rankers import rank
from interleaf.simulate.run import ndcg
from interleaf.stats.consistency import correlation, triples, verdicts
from interleaf.studies import chapelle2012 as chapelle, chapelle2012_buckets as published
from interleaf.studies.chapelle2012_buckets import (
    CHANGED,
    ENGINES,
    METHODS,
    Impressions,
    PairTraffic,
    break_ties,
    impressions_of,
    judge,
    rankers_of,
    traffic_of,
)
from interleaf.studies.chapelle2012_tables import preference, session_scores, usable
from interleaf.studies.study import Cell, Study, StudyRun, Table

TRIPLES = ((0, 1, 2), (3, 4, 5))  # columns of A over B, B over C and A over C in C12's arXiv tables


def together(one: float, other: float, rises: bool) -> float:
    """A over C from A over B and B over C, in per cent of the worse ranker's value, positive as expected."""
    if rises:
        return 100 * (1 - (1 - one / 100) * (1 - other / 100))
    return 100 * ((1 + one / 100) * (1 + other / 100) - 1)


@pytest.mark.parametrize("name", METRICS)
def test_table_vi_gives_the_directions_that_are_lost_from_table_v_and_the_divisor(name: str) -> None:
    """Its steps make up the whole if they divide by the worse ranker's value, with our directions and no others."""
    row, rises = published.METRICS_OF["arXiv"][name].differences, METRICS[name].rises
    for one, other, whole in TRIPLES:
        assert together(row[one], row[other], rises) == pytest.approx(row[whole], abs=0.016)
    wrong = [abs(together(row[one], row[other], not rises) - row[whole]) for one, other, whole in TRIPLES]
    assert max(wrong) > 0.016


@pytest.mark.parametrize("engine", ["arXiv", "Yahoo"])
def test_printed_differences_have_the_printed_signs(engine: str) -> None:
    rows = published.METRICS_OF[engine]
    for name, row in rows.items():
        assert verdicts(row.differences, [False] * 6)[:2] == row.verdicts[:2], name


@pytest.mark.parametrize("name", sorted(published.METRICS_OF["Yahoo"].keys() & METRICS.keys()))
def test_printed_differences_have_the_printed_correlations(name: str) -> None:
    metric = published.METRICS_OF["Yahoo"][name]
    assert correlation(published.YAHOO_DCG, metric.differences) == pytest.approx(metric.correlation, abs=0.01)


def test_printed_medians_are_those_of_the_printed_rows() -> None:
    rows = [row for schemes in published.SCHEMES.values() for row in schemes.values()]
    for row, middle in [*rows, *published.TIMEOUTS.values()]:
        assert statistics.median(row) == pytest.approx(middle, abs=0.0051)


def test_printed_signals_are_strongly_transitive() -> None:
    for engine, method in (("arXiv", "balanced"), ("arXiv", "team_draft"), ("Yahoo", "balanced")):
        pairs = published.ARXIV if engine == "arXiv" else published.YAHOO
        found = triples(dict(zip(pairs, published.METRICS_OF[engine][method].differences, strict=True)))
        assert len(found) == (2 if engine == "arXiv" else 4)
        assert all(triple.is_strong for triple in found)


@pytest.fixture(scope="module")
def data() -> Judged:
    return synthetic(queries=300, features=6, seed=4)


def test_rankers_get_worse_in_the_order_that_pairs_say(data: Judged) -> None:
    rankers = rankers_of(data, 1)
    quality = dict(zip(rankers, ndcg(data, rank(data, list(rankers.values()), "ties"), 5), strict=True))
    for pairs in ENGINES.values():
        for better, worse in pairs:
            assert quality[better] > quality[worse], (better, worse)
    changed = {
        name: sum((rankers[name][data.rows(query)] != rankers["E_A"][data.rows(query)]).any() for query in range(300))
        for name in CHANGED
    }
    assert changed["D_Y"] == 0
    for name, share in CHANGED.items():
        assert 0.9 * share * 300 <= changed[name] <= share * 300  # short queries have nothing to swap


def test_settled_scores_have_no_ties_and_keep_the_order(data: Judged) -> None:
    scores = break_ties(data, 1, "key")
    for query in range(len(data)):
        rows = data.rows(query)
        order = np.argsort(-scores[rows])
        assert sorted(scores[rows].tolist()) == list(range(1 - len(order), 1))
        assert (np.diff(data.features[rows, 0][order]) <= 0).all()


def test_judges_say_of_the_rankers_what_the_simulator_s_truth_says(data: Judged) -> None:
    rankers = rankers_of(data, 1)
    wanted = ndcg(data, rank(data, list(rankers.values()), "ties"), 5)
    judged = judge(data, rankers)["NDCG@5"]
    assert [values.mean() for values in judged.values()] == pytest.approx(wanted)


def test_data_without_a_choice_of_features_is_refused() -> None:
    one = Judged(np.array([[1.0], [2.0]]), np.array([0, 1]), np.array([0, 2]), ("q",))
    with pytest.raises(DataError, match="1 features that vary"):
        rankers_of(one, 1)


@pytest.fixture(scope="module")
def traffic(data: Judged) -> PairTraffic:
    return traffic_of(data, rankers_of(data, 1), ("E_A", "C_A"), chapelle.people(data, 600), seed=2)


def test_impressions_are_what_the_log_says(data: Judged) -> None:
    people = People(units=60, clicks="navigational", regressions=0.5, purchases=(0.3, 0.3))
    world = World(data, {"A": 1, "B": 5}, people, "team_draft", 10, 3, arms={"B": 0.4})
    found = impressions_of(world.batches(chunk=20), "team_draft", 10)
    rows = [row for batch in world.batches() for row in batch.to_pylist()]
    assert len(rows) == len(found.arms) == len(found.pages)
    units: dict[int, str] = {}
    for number, row in enumerate(rows):
        clicks = [event for event in row["events"] if event["kind"] == "click"]
        delays = [(event["time"] - row["time"]).total_seconds() for event in clicks]
        assert set(np.flatnonzero(found.pages.clicked[number]) + 1) == {event["rank"] for event in clicks}
        assert np.nan_to_num(found.pages.first[number], nan=-1) == pytest.approx(min(delays, default=-1))
        assert np.nan_to_num(found.pages.last[number], nan=-1) == pytest.approx(max(delays, default=-1))
        assert found.pages.times[number] == pytest.approx(row["time"].timestamp(), abs=1e-6)
        assert units.setdefault(int(found.pages.units[number]), row["unit"]) == row["unit"]
        assert found.arms[number] == row["arm"]
        count = len(row["documents"])
        assert found.counts[number] == count
        assert found.shown.ranks[number, :, :count].tolist() == row["ranks"]
        assert found.shown.teams[number, :count].tolist() == row["teams"]
    assert len(units) == len(set(units.values()))


def test_scores_are_those_of_crediting_the_logged_rows_one_by_one(data: Judged) -> None:
    for method in METHODS:
        world = World(data, {"A": 1, "B": 5}, People(units=40), method, 10, 3)
        found = impressions_of(world.batches(), method, 10)
        rows = [row for batch in world.batches() for row in batch.to_pylist()]
        for scheme in ("binary", "normalized"):
            wanted = [
                credit(
                    Interleaving.from_dict(row), [event["rank"] for event in row["events"]], scheme=scheme
                ).preference[0, 1]
                for row in rows
                if row["events"]
            ]
            assert found.scores(scheme).tolist() == pytest.approx(wanted)


def test_all_forms_of_a_variant_have_the_same_sign_on_every_impression(traffic: PairTraffic) -> None:
    for method, variants in (("balanced", ("", "_direct")), ("team_draft", ("", "_deduped"))):
        for variant in variants:
            binary, click, normalized = (
                traffic.interleaved[method].scores(form + variant) for form in ("binary", "click", "normalized")
            )
            assert (np.sign(click) == binary).all()
            assert (np.sign(normalized) == binary).all()
            assert (np.abs(normalized) <= 1).all()


def test_the_buckets_of_a_pair_are_other_people_and_the_same_for_each_method(traffic: PairTraffic) -> None:
    balanced, drafted = (traffic.interleaved[method].pages for method in METHODS)
    assert set(balanced.units) == set(drafted.units)
    assert not set(balanced.units) & set(traffic.better.units)
    assert not set(traffic.worse.units) & set(traffic.better.units)


def test_scores_of_sessions_are_those_of_summed_clicks(traffic: PairTraffic) -> None:
    """A timeout of 0 gives the scheme itself; a very long one a score a user."""
    found = traffic.interleaved["balanced"]
    assert sorted(session_scores(found, 0)) == pytest.approx(sorted(found.scores("normalized_direct")))
    whole = session_scores(found, 1e12)
    users, credited = found.pages.units, found.credit("normalized_direct")
    wanted = [credited[users == user].sum(axis=0) for user in np.unique(users)]
    assert sorted(whole) == pytest.approx(sorted((a - b) / either for a, b, either in wanted if either))


def flat(clicks: int) -> QueryPages:
    """Ten users, the first so many of whom click the first result."""
    clicked = np.array([[user < clicks] for user in range(10)])
    delays = np.where(clicked[:, 0], 1.0, np.nan)
    return QueryPages(clicked, delays, delays, np.arange(10), np.zeros(10))


def test_the_size_of_a_bucket_is_halved_while_the_metric_is_all_but_certain() -> None:
    generator = np.random.default_rng(1)
    assert usable(PairTraffic(("A", "B"), {}, flat(6), flat(4)), generator, 400)[0] == 10
    assert usable(PairTraffic(("A", "B"), {}, flat(9), flat(1)), generator, 400)[0] < 10
    assert usable(PairTraffic(("A", "B"), {}, flat(10), flat(0)), generator, 400) == (1, 1.0)


@pytest.fixture(scope="module")
def small() -> Iterator[Study]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chapelle, "QUERIES", 400)
        patch.setitem(chapelle.SCALES, "quick", chapelle.ChapelleScale({"arXiv": 3000, "Yahoo": 9000}, 300, 5))
        yield chapelle.study(StudyRun())


def table_of(study: Study, name: str) -> Table:
    return next(table for table in study.tables if table.name == name)


def row_of(table: Table, name: str, whose: str | None = None) -> tuple[Cell, ...]:
    return next(row for row in table.rows if row[0] == name and whose in (None, row[1]))


def test_interleaving_is_right_on_every_pair_and_significantly_so(small: Study) -> None:
    for engine, title in (
        ("arxiv", "Balanced interleaving"),
        ("arxiv", "Team draft"),
        ("yahoo", "Balanced interleaving"),
    ):
        assert row_of(table_of(small, f"{engine}-verdicts"), title)[-2:] == ("6 / 0", "6 / 0"), (engine, title)
    sure = row_of(table_of(small, "yahoo-verdicts"), "Team draft")[-1]  # plain: clicks on shared results are noise
    assert str(sure).endswith("/ 0")


def test_absolute_metrics_are_less_consistent_and_take_more_data_where_rankers_differ_little(small: Study) -> None:
    table = table_of(small, "yahoo-consistency")
    wrong = {str(row[0]): [float(str(cell)) for cell in row[1:]] for row in table.rows}
    for metric in METRICS.values():
        pairs = zip(wrong["Balanced interleaving"], wrong[metric.title], strict=True)
        assert all(ours <= theirs for ours, theirs in pairs), metric.title
    ratios = [
        row[table_of(small, "yahoo-ratios").columns.index("balanced n'/n''")]
        for row in table_of(small, "yahoo-ratios").rows
    ]
    known = [float(str(ratio)) for ratio in ratios if ratio is not None]
    assert len(known) >= 3
    assert min(known) > 1


def test_windows_err_less_the_longer_they_are(small: Study) -> None:
    for row in table_of(small, "windows").rows:
        wrong = [float(str(cell).split()[0]) for cell in row[1:]]
        assert wrong[-1] < wrong[0]


def test_deduped_schemes_are_more_sensitive_where_rankings_are_mostly_the_same(small: Study) -> None:
    table = table_of(small, "yahoo-team-draft-schemes")
    for scheme in ("binary_deduped", "normalized_deduped"):
        assert float(str(row_of(table, scheme, "ours")[-1])) > 1.2


def test_preferences_are_strongly_transitive_where_they_are_clear_and_agree_with_judges(small: Study) -> None:
    rows = [row for row in table_of(small, "transitivity").rows if "_A" in str(row[1])]
    assert len(rows) == 4
    assert {row[-1] for row in rows} == {"yes"}
    for row in table_of(small, "agreement").rows:
        agreeing, sure = str(row[4]).split(" of ")
        assert agreeing == sure
        assert row[3] == "6 of 6" or row[:2] == ("Yahoo", "Team draft")


def test_every_table_has_a_row_for_what_it_compares_and_the_study_is_written(small: Study, tmp_path: Path) -> None:
    for table in small.tables:
        assert table.rows, table.name
        assert {len(row) for row in table.rows} == {len(table.columns)}, table.name
    assert len(table_of(small, "arxiv-metrics").rows) == 1 + 2 * len(METRICS) + 2
    assert set(small.charts) == {"arxiv-consistency", "yahoo-consistency", "windows", "clicks"}
    assert "gain 2^grade - 1" in str(small)
    assert all(path.stat().st_size for path in small.write(tmp_path))


def test_the_study_is_the_same_again_whatever_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[int, int]] = []
    monkeypatch.setattr(chapelle, "QUERIES", 60)
    monkeypatch.setitem(chapelle.SCALES, "quick", chapelle.ChapelleScale({"arXiv": 300, "Yahoo": 300}, 20, 2))
    once = chapelle.study(StudyRun(progress=lambda done, total: said.append((done, total))))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert str(chapelle.study(StudyRun())) == str(once)
    assert said[-1] == (12, 12)


def test_a_pair_that_nobody_clicks_has_no_preference() -> None:
    nothing = flat(0)
    shown = impressions_of(World(synthetic(10, seed=1), [1, 2], People(units=10), seed=1).batches(), "balanced", 10)
    lists = type(shown.shown)(*(values[:10] for values in shown.shown))
    assert preference(Impressions("balanced", shown.arms[:10], nothing, lists, shown.counts[:10])).value is None
