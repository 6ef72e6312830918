"""Many experiments: found by words, page by page, archived and deleted; each costs the same however many there are."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from benchmarks.experiments import _fill
from interleaf.errors import StateError
from interleaf.experiment import Experiment
from interleaf.log.drop_reasons import EventFate
from interleaf.server.dashboard.experiment_pages import PAGE
from interleaf.store import experiments, open_store, privacy
from interleaf.store.experiments import index_experiments
from interleaf.store.records import Event, Search, VersionCounts
from interleaf.store.sql import SqlStore
from interleaf.store.sql_tables import STEPS
from tests.support.dashboards import Elements, Visitor
from tests.support.services import SHOES, START, Live, live
from tests.support.stores import HOUR, SECOND, SHOP, address, check_sums, click, impression, running, store  # noqa: F401


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as found:
        yield found


def names(store: SqlStore, search: Search, **more: Any) -> list[str]:  # noqa: F811
    return [one.settings.name for one in store.experiments(search, **more)]


def test_a_search_finds_words_of_names_rankers_and_notes(store: SqlStore) -> None:  # noqa: F811
    notes: dict[str, dict[str, Any]] = {
        "a": {"owner": "Ann Ü", "tags": ["Q3", "100%"]},
        "b": {"hypothesis": "more\nclicks", "rankers": ["old", "bm25_new"]},
        "c": {"description": "of ann"},
    }
    for place, (name, more) in enumerate(notes.items()):
        store.create(Experiment.of(SHOP | {"name": name} | more), START + place, "test")
    found = {
        "": "cba", "ANN": "ca", "ann q3": "a", "ü": "a", "100%": "a", "%": "a", "_": "b", "bm25_": "b", "clicks": "b",
        "nothing": "", "candidate": "ca", "!": "", "'": "",
    }  # fmt: skip
    assert {text: "".join(names(store, Search(text))) for text in found} == found
    store.start("a", START, "test")
    assert names(store, Search()) == ["a", "c", "b"]  # what runs comes first, then drafts, the latest first
    assert names(store, Search(state="draft")) == ["c", "b"]
    assert names(store, Search(only="b")) == ["b"]
    assert [names(store, Search(), limit=2, offset=offset) for offset in (0, 2, 4)] == [["a", "c"], ["b"], []]
    assert [store.count_experiments(Search(text)) for text in ("", "ann", "x")] == [(3, True), (2, True), (0, True)]
    assert store.experiments()[0] == store.experiment("a")


WORDS = ("ann", "shoes", "shoe", "bm25_new", "Ünal", "100%", "2026-q3", "靴の検索", "a", "x" * 60)


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    notes=st.lists(st.lists(st.sampled_from(WORDS), max_size=4), min_size=1, max_size=6),
    asked=st.lists(
        st.sampled_from([*WORDS, "sh", "25", "new", "_", "%", "q3", "検索", "ü", "hoes", "n", "x" * 50]), max_size=3
    ),
    max_rare=st.sampled_from([0, 2, 1000]),
    max_scanned=st.sampled_from([2, 1000]),
)
def test_a_search_finds_the_beginnings_of_all_its_words(
    notes: list[list[str]], asked: list[str], max_rare: int, max_scanned: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "MAX_RARE", max_rare)
        patch.setattr(experiments, "MAX_SCANNED", max_scanned)
        with closing(open_store(Path(folder) / "store.db")) as store:
            for place, words in enumerate(notes):
                given = SHOP | {"name": f"e{place}", "rankers": ["p", "c"], "description": " ".join(words)}
                store.create(Experiment.of(given), START + place, "test")
            expected = [f"e{place}" for place, words in reversed([*enumerate(notes)]) if is_found(asked, words, place)]
            found, count = names(store, Search(" ".join(asked))), store.count_experiments(Search(" ".join(asked)))
    assert len(found) == count.number
    assert found == expected if count.is_exact else found == expected[: len(found)]
    assert count.is_exact or max_rare == 0 or max_scanned == 2


def is_found(asked: list[str], words: list[str], place: int) -> bool:
    """Whether each word that is asked for begins at a place of some word where letters, digits or signs begin."""
    there = [*words, "p", "c", f"e{place}"]
    begins = re.compile(r"[^\W\d_\u2e80-\uffff]+|\d+|.")
    starts = [word.casefold()[match.start() :] for word in there for match in begins.finditer(word.casefold())]
    return all(any(start[:40].startswith(word.casefold()[:40]) for start in starts) for word in asked)


def test_experiments_of_an_earlier_version_are_found_by_their_notes(
    address: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = STEPS.index(index_experiments)
    with closing(open_store(address)) as store:  # noqa: F811
        store.create(Experiment.of(SHOP | {"owner": "Ann"}), START, "test")
        with store._database.writing() as transaction:  # as the steps before left it
            transaction.change("DELETE FROM experiment_words")
            transaction.change("UPDATE schema_version SET version = ?", place)
        assert names(store, Search("ann")) == []
    monkeypatch.setattr("interleaf.store.sql_tables.STEPS", STEPS[: place + 1])
    with closing(open_store(address)) as store:
        assert names(store, Search("ann")) == names(store, Search("shop")) == ["shop"]


def test_fates_of_an_earlier_version_become_codes(
    address: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = STEPS.index(index_experiments) + 1
    with closing(open_store(address)) as store:  # noqa: F811
        store.write([], [Event("e-1", "click", START, START, impression="nowhere", rank=1)])
        with store._database.writing() as transaction:  # as the steps before left it
            transaction.change("UPDATE apart SET reason = 'unknown impression'")
            transaction.change("UPDATE schema_version SET version = ?", place)
    monkeypatch.setattr("interleaf.store.sql_tables.STEPS", STEPS[: place + 1])
    with closing(open_store(address)) as store:
        assert store.count_unplaced() == {EventFate.UNKNOWN_IMPRESSION: 1}


def test_an_experiment_is_found_by_its_present_words(store: SqlStore) -> None:  # noqa: F811
    store.create(Experiment.of(SHOP | {"owner": "Ann"}), START, "test")
    store.edit(Experiment.of(SHOP | {"owner": "Bert"}), START, "test")
    assert (names(store, Search("ann")), names(store, Search("bert"))) == ([], ["shop"])
    store.delete("shop", START)
    store.create(Experiment.of(SHOP), START, "test")
    assert names(store, Search("bert")) == []


def test_a_list_of_more_than_a_thousand_says_so(service: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "MAX_COUNT", PAGE + 1)
    for number in range(PAGE + 5):
        service.make(start=False, name=f"shoes-{number:02}")
    answer = service.ask("GET", "/v1/experiments", params={"limit": PAGE + 1}).json()
    assert (answer["total"], answer["is_total_exact"], answer["next"]) == (PAGE + 1, False, 2)
    answer = service.ask("GET", "/v1/experiments", params={"limit": PAGE + 1, "page": 2}).json()
    assert (len(answer["experiments"]), answer["next"]) == (4, None)
    text = Visitor(service).open("/?page=99").text
    assert f"Page 2 of 2, the first {PAGE + 1} experiments; search to find others" in text


def test_an_archived_experiment_is_stopped_and_hidden_until_it_is_unarchived(store: SqlStore) -> None:  # noqa: F811
    running(store)
    archived = store.archive("shop", START + 1, "ann")
    assert (archived.state, archived.archived, archived.stopped) == ("stopped", START + 1, START + 1)
    assert [one.what for one in archived.history] == ["created", "started", "stopped", "archived"]
    assert (names(store, Search()), names(store, Search(archived=True)), len(store.experiments())) == ([], ["shop"], 1)
    with pytest.raises(StateError, match="cannot be archived: it is archived already"):
        store.archive("shop", 1, "")
    with pytest.raises(StateError, match="cannot be decided: it is archived; unarchive it first"):
        store.decide("shop", "x", 1, "")
    shown = store.unarchive("shop", START + 2, "ann")
    assert (shown.state, shown.archived, names(store, Search())) == ("stopped", None, ["shop"])
    with pytest.raises(StateError, match="not archived"):
        store.unarchive("shop", 1, "")
    store.create(Experiment.of(SHOP | {"name": "draft"}), START, "test")
    store.archive("draft", START, "test")
    with pytest.raises(StateError, match="unarchive it first"):
        store.start("draft", START, "test")


def test_notes_of_an_experiment_change_in_any_state_without_a_new_version(store: SqlStore) -> None:  # noqa: F811
    settings = running(store)
    noted = store.edit(Experiment.of(SHOP | {"owner": "Ann", "tags": ["q3"]}), START + 1, "ann")
    assert (noted.version, noted.settings.owner, noted.settings.offset) == (1, "Ann", settings.offset)
    assert noted.history[-1].note == "owner, tags"
    store.stop("shop", START + 2, "ann")
    assert store.edit(Experiment.of(noted.settings.to_dict() | {"description": "x"}), START + 3, "ann").version == 1
    with pytest.raises(StateError, match="cannot be edited: it is stopped"):
        store.edit(Experiment.of(noted.settings.to_dict() | {"k": 5}), START + 3, "ann")


def rows_of(store: SqlStore, name: str) -> dict[str, int]:  # noqa: F811
    """How many rows of an experiment each table has."""
    columns = {"experiments": "name", "versions": "experiment", "history": "experiment", "impressions": "experiment",
               "sums": "experiment", "apart": "experiment"}  # fmt: skip
    with store._database.reading() as transaction:
        found = {
            table: transaction.rows(f"SELECT count(*) FROM {table} WHERE {column} = ?", name)[0][0]
            for table, column in columns.items()
        }
        found["events"] = transaction.rows("SELECT count(*) FROM events WHERE impression LIKE ?", f"{name}-%")[0][0]
    return found


def test_a_deleted_experiment_leaves_no_row_and_others_keep_theirs(
    store: SqlStore,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(privacy, "DELETED_AT_ONCE", 3)
    for name in ("shop", "other"):
        settings = running(store, name=name)
        made = [impression(settings, number, number * SECOND) for number in range(8)]
        store.write(made, [click(one) for one in made] + [click(made[0], 9)])
        store.fold(START + HOUR + 3 * SECOND)
    _, secret = store.add_key("read", "scoped", START, experiment="shop")
    _, kept = store.add_key("read", "of all", START)
    before = store.counts("other")
    with pytest.raises(StateError, match="it is running; stop it or archive it first"):
        store.delete("shop", START)
    store.stop("shop", START, "test")
    assert all(rows_of(store, "shop").values())
    assert store.delete("shop", START) == 8
    assert not any(rows_of(store, "shop").values())
    with pytest.raises(KeyError):
        store.experiment("shop")
    with pytest.raises(KeyError):
        store.delete("shop", START)
    assert (store.key_of(secret), store.key_of(kept) is None) == (None, False)
    assert store.counts("other") == before
    check_sums(store, "other")


def test_another_experiment_of_a_deleted_name_starts_at_the_next_version(store: SqlStore, address: str) -> None:  # noqa: F811
    settings = running(store, attribution="last_impression")
    other = open_store(address)  # a worker that remembers the first one
    first = impression(settings, 1, unit="ann")
    other.write([first], [])
    store.stop("shop", START, "test")
    store.delete("shop", START)
    again = running(store)
    assert store.experiment("shop").version == 2
    other.write([impression(settings, 2)], [])  # it comes late, of the deleted experiment
    second = impression(again, 3, version=2)
    assert other.write([second], [click(second)])[1] == [EventFate.ACCEPTED]
    lost = Event("e", "click", START, START, unit="ann", document=first.row["documents"][0])
    assert other.write([], [lost])[1] == [EventFate.NOT_SHOWN_TO_UNIT]
    assert store.counts("shop") == VersionCounts(1, 0, {})
    store.fold(START + SECOND)
    assert rows_of(store, "shop")["impressions"] == 1
    other.write([impression(settings, 4)], [])
    store.fold(START + 61 * SECOND)
    assert rows_of(store, "shop")["impressions"] == 1
    check_sums(store, "shop")
    other.close()


def test_a_deletion_that_was_cut_short_is_finished_by_the_next_fold(
    store: SqlStore,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = running(store)
    store.write([impression(settings, number) for number in range(5)], [])
    store.stop("shop", START, "test")
    with monkeypatch.context() as cut:
        cut.setattr(privacy, "_delete_rows", lambda *_: 0)
        store.delete("shop", START)
    assert rows_of(store, "shop")["impressions"] == 5
    store.fold(START)
    assert not any(rows_of(store, "shop").values())
    assert privacy.DELETED_AT_ONCE > 5


def test_the_api_lists_page_by_page(service: Live) -> None:
    for number in range(5):
        service.make(start=number == 2, name=f"shoes-{number}", owner="Ann" if number % 2 else "")
        service.clock.now += 1

    def join_names(**asked: Any) -> Any:
        answer = service.ask("GET", "/v1/experiments", params=asked).json()
        return [one["name"][-1] for one in answer["experiments"]], answer["total"], answer["next"]

    assert join_names() == (["2", "4", "3", "1", "0"], 5, None)
    assert join_names(limit=2) == (["2", "4"], 5, 2)
    assert join_names(limit=2, page=3) == (["0"], 5, None)
    assert join_names(search="ann") == (["3", "1"], 2, None)
    assert join_names(state="running") == (["2"], 1, None)
    assert service.ask("POST", "/v1/experiments/shoes-2/archive").json()["state"] == "stopped"
    assert (join_names()[1], join_names(archived="true")) == (4, (["2"], 1, None))
    assert service.ask("POST", "/v1/experiments/shoes-2/unarchive").json()["archived"] is None
    assert join_names()[1] == 5
    for wrong in ({"limit": "0"}, {"limit": "1001"}, {"page": "x"}, {"state": "gone"}, {"archived": "maybe"}):
        answer = service.ask("GET", "/v1/experiments", params=wrong)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, next(iter(wrong)))
    assert join_names(search="\0") == ([], 0, None)


def test_the_api_deletes_what_is_confirmed_and_not_running(service: Live) -> None:
    service.make()
    shown = service.show().json()
    path = "/v1/experiments/shoes"
    unconfirmed = service.ask("DELETE", path)
    assert (unconfirmed.status_code, unconfirmed.json()["error"]["code"]) == (422, "not_confirmed")
    assert service.ask("DELETE", path, params={"confirm": "boots"}).status_code == 422
    assert service.ask("DELETE", path, params={"confirm": "shoes"}).status_code == 409
    service.ask("POST", f"{path}/archive")
    assert service.ask("DELETE", path, params={"confirm": "shoes"}).json() == {"impressions": 1}
    assert service.ask("GET", path).status_code == 404
    assert service.ask("DELETE", path, params={"confirm": "shoes"}).status_code == 404
    assert service.tell({"impression": shown["impression"], "rank": 1}).json()["apart"] == {
        EventFate.UNKNOWN_IMPRESSION: 1
    }
    service.make()
    assert service.ask("GET", path).json()["version"] == 2


def test_the_list_has_pages_a_search_and_an_archive(service: Live) -> None:
    for number in range(PAGE + 2):
        service.make(start=False, name=f"shoes-{number:02}", tags=["Q3 & co"] if number == 1 else [], owner="Ann")
        service.clock.now += 1
    visitor = Visitor(service)

    def cards(path: str) -> list[str]:
        found = Elements(visitor.open(path).text).of("li")
        return [str(card["id"]).removeprefix("experiment-shoes-") for card in found if "id" in card]

    assert cards("/") == [f"{number:02}" for number in range(PAGE + 1, 1, -1)]
    assert cards("/?page=2") == cards("/?page=99") == cards("/live?page=2") == ["01", "00"]
    first = visitor.open("/").text
    assert f"Page 1 of 2, {PAGE + 2} experiments" in first
    assert [link["href"] for link in Elements(first).of("a") if link.get("rel") == "next"] == ["/?page=2"]
    tag = next(link["href"] for link in Elements(visitor.open("/?page=2").text).of("a") if link.get("class") == "tag")
    assert cards(str(tag)) == ["01"]
    assert cards("/?search=ann&page=2") == ["01", "00"]
    assert "No experiment matches" in visitor.open("/?search=nothing").text
    visitor.send("/experiments/shoes-01", "/experiments/shoes-01/archive")
    assert (cards("/?page=2"), cards("/?archived=true")) == (["00"], ["01"])
    visitor.send("/experiments/shoes-01", "/experiments/shoes-01/unarchive")
    assert cards("/?page=2") == ["01", "00"]
    assert visitor.open("/?state=gone").status_code == 422


def test_the_page_deletes_an_experiment_whose_name_was_typed(service: Live) -> None:
    service.make(start=False)
    visitor = Visitor(service)
    refused = visitor.send("/experiments/shoes", "/experiments/shoes/delete", confirm="boots")
    assert (refused.status_code, "repeat its name" in refused.text) == (422, True)
    gone = visitor.send("/experiments/shoes", "/experiments/shoes/delete", confirm="shoes")
    assert (gone.status_code, gone.url.path, "There is no experiment yet" in gone.text) == (200, "/", True)


def steps_of(store: SqlStore, work: Any) -> int:  # noqa: F811
    """How many thousand steps SQLite takes for some work."""
    database: Any = store._database
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with database.reading():
        pass
    connections = [database._writer, *database._readers]
    for connection in connections:
        connection.set_progress_handler(count, 1000)
    work()
    for connection in connections:
        connection.set_progress_handler(None, 0)
    return steps


SEARCHES = (
    *(Search(), Search(state="stopped"), Search(state="decided"), Search(archived=True), Search("needle")),
    *(Search("nothing"), Search("candidate-77"), Search("needle production"), Search("needle", state="draft")),
    *(Search("production"), Search("production candidate"), Search("production", archived=True), Search("e")),
)


def test_events_of_units_lists_and_folds_cost_the_same_however_many_experiments_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[dict[str, int]] = []
    monkeypatch.setattr(experiments, "MAX_RARE", 50)  # so that five thousand are as many as can be
    monkeypatch.setattr(experiments, "MAX_SCANNED", 90)
    monkeypatch.setattr(experiments, "MAX_COUNT", 90)
    for number in (100, 5000):
        store = open_store(tmp_path / f"{number}.db")  # noqa: F811
        _fill(store, number)
        experiment = store.experiment("experiment-0").settings
        one = impression(experiment, 1, unit="ann")
        store.write([one], [])
        document = one.row["documents"][0]
        event = Event("e", "click", one.time, one.time, unit="ann", document=document)
        searching: dict[str, Callable[[Search], object]] = {
            "find": lambda search: store.experiments(search, PAGE),  # noqa: B023
            "count": store.count_experiments,
        }
        steps.append(
            {
                "event": steps_of(store, lambda: store.write([], [event])),  # noqa: B023
                "list": steps_of(store, lambda: store.experiments(Search(), PAGE)),  # noqa: B023
                "fold": steps_of(store, lambda: store.fold(START)),  # noqa: B023
                "start": steps_of(store, lambda: store.create(Experiment.of(SHOES), START, "x")),  # noqa: B023
                "delete a unit": steps_of(store, lambda: store.forget("nobody")),  # noqa: B023
            }
            | {
                f"{what} {search}": steps_of(store, partial(work, search))
                for what, work in searching.items()
                for search in SEARCHES
            }
        )
        assert [row["event"] for row in store.examples("experiment-0")[0]["events"]] == ["e"]
        store.close()
    few, many = steps
    assert all(many[what] <= few[what] + 3 for what in few), steps
