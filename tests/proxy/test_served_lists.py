"""Lists of the last minutes: found by each of their keys, extended, forgotten by age and by number."""

from interleaf.proxy import search
from interleaf.proxy.search import KEEP_LISTS, MAX_LISTS, REPEAT_SECONDS, ServedLists


def test_a_list_is_found_until_it_is_too_old() -> None:
    now = [0.0]
    lists = ServedLists(lambda: now[0])
    served = lists.new("i-1", ["a", "b"], 2)
    assert lists.add([b"search", "i-1"], served)
    assert lists.find(b"search") is lists.find("i-1") is served
    now[0] = KEEP_LISTS - 1
    assert lists.find("i-1") is served
    now[0] = KEEP_LISTS
    assert lists.find("i-1") is None


def test_the_same_page_is_a_repeat_for_a_while() -> None:
    now = [0.0]
    lists = ServedLists(lambda: now[0])
    served = lists.new("i-1", ["a", "b"], 2)
    assert lists.is_repeat(served, 0, ["a", "b"])
    assert not lists.is_repeat(served, 0, ["b", "a"])
    assert not lists.is_repeat(served, 2, ["c"])
    now[0] = REPEAT_SECONDS
    assert not lists.is_repeat(served, 0, ["a", "b"])


def test_a_further_page_extends_a_list_once() -> None:
    lists = ServedLists()
    served = lists.new("i-1", ["a", "b"], 2)
    lists.add(["i-1"], served)
    assert lists.extend(["query q"], served, ["a", "b", "c"])
    assert not lists.extend([], served, ["a", "b", "c"])
    assert not lists.extend([], served, ["a", "b"])
    found = lists.find("query q")
    assert found is not None
    assert found.documents == ["a", "b", "c"]


def test_the_oldest_lists_are_forgotten_first() -> None:
    lists = ServedLists()
    for number in range(MAX_LISTS + 10):
        lists.add([f"i-{number}"], lists.new(f"i-{number}", [], 10))
        lists.add(["i-0"], lists.new("i-0", [], 10))  # used again and again
    assert lists.find("i-0") is not None
    assert lists.find("i-10") is None
    assert lists.find(f"i-{MAX_LISTS}") is not None
    assert len(lists._lists) == search.MAX_LISTS
