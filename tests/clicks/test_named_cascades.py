"""The named click tables: every value of the literature, both stop rules exactly, spec strings and errors."""

from fractions import Fraction
from itertools import product

import pytest

from interleaf.clicks import TABLES, Cascade, ClickTable, find_cascade
from interleaf.clicks.click_models import numbers
from interleaf.errors import ClickError
from tests.oracles import clicks as oracle

# name, grades, click probabilities, stop probabilities: typed from O17 Table 2, H11, H12h and the released code.
VALUES = """
perfect         5   0 .2 .4 .8 1           0 0 0 0 0
perfect         3   0 .5 1                 0 0 0
perfect         2   0 1                    0 0
perfect_linear  5   0 .25 .5 .75 1         0 0 0 0 0
perfect_linear  3   0 .5 1                 0 0 0
perfect_linear  4   0 1/3 2/3 1            0 0 0 0
realistic       5   .05 .1 .2 .4 .8        0 .2 .4 .6 .8
realistic       3   .05 .2 .8              0 .4 .8
realistic       2   .05 .8                 0 .8
navigational    5   .05 .3 .5 .7 .95       .2 .3 .5 .7 .9
navigational    3   .05 .5 .95             .2 .5 .9
navigational    2   .05 .95                .2 .9
informational   5   .4 .6 .7 .8 .9         .1 .2 .3 .4 .5
informational   3   .4 .7 .9               .1 .3 .5
informational   2   .4 .9                  .1 .5
almost_random   5   .4 .45 .5 .55 .6       .5 .5 .5 .5 .5
almost_random   3   .4 .5 .6               .5 .5 .5
almost_random   2   .4 .6                  .5 .5
random          5   .5 .5 .5 .5 .5         0 0 0 0 0
random          2   .5 .5                  0 0
"""
Row = tuple[str, int, list[Fraction], list[Fraction]]


def row_of(line: str) -> Row:
    name, grades, *values = line.split()
    found = [Fraction(value) for value in values]
    assert len(found) == 2 * int(grades)
    return name, int(grades), found[: int(grades)], found[int(grades) :]


ROWS = [row_of(line) for line in VALUES.strip().splitlines()]
EVERY_ROW = pytest.mark.parametrize(
    ("name", "grades", "click", "stop"), ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS]
)


@EVERY_ROW
def test_a_named_table_holds_the_values_of_the_literature(
    name: str, grades: int, click: list[Fraction], stop: list[Fraction]
) -> None:
    person = find_cascade(name, grades)
    assert list(numbers(person.click, exact=True)) == click
    assert list(numbers(person.stop, exact=True)) == stop
    assert person.stop_needs_click


@pytest.mark.parametrize("stop_needs_click", [True, False])
@EVERY_ROW
def test_both_stop_rules_have_exactly_the_distribution_of_the_oracle(
    name: str, grades: int, click: list[Fraction], stop: list[Fraction], stop_needs_click: bool
) -> None:
    judged = {f"document {grade}": grade for grade in range(grades)}
    shown = sorted(judged, reverse=True)[:4]
    person = find_cascade(name, grades, stop_needs_click, judged)
    expected = oracle.cascade([judged[document] for document in shown], click, stop, stop_needs_click)
    found = {tuple(int(rank in ranks) for rank in range(1, 5)): p for ranks, p in person.distribution(shown).items()}
    assert found == {(*pattern, *[0] * (4 - len(shown))): p for pattern, p in expected.items()}


def test_every_row_of_the_table_was_checked() -> None:
    checked = {(name, grades) for name, grades, _, _ in ROWS}
    for table in TABLES:
        assert {(table.name, table.grades or grades) for grades in (2, 3, 5)} & checked
        assert table.source


def test_a_name_never_has_two_rows_for_one_number_of_grades() -> None:
    for first, second in product(TABLES, TABLES):
        if first is not second and first.name == second.name:
            assert None not in (first.grades, second.grades)
            assert first.grades != second.grades


def test_what_is_not_known_for_sure_is_said_so() -> None:
    unverified = {table.name for table in TABLES if "unverified" in table.source}
    assert unverified == {"realistic"}


def test_a_row_is_plain_data() -> None:
    table = ClickTable("mine", None, (0.1, 0.4), (0, 0), "nowhere")
    assert table.by_grade(4) == ((Fraction(1, 10), Fraction(1, 5), Fraction(3, 10), Fraction(2, 5)), (0, 0, 0, 0))


def test_a_spec_sets_what_it_names_and_wins_over_arguments() -> None:
    assert find_cascade("navigational") == find_cascade("navigational", grades=5, stop_needs_click=True)
    assert find_cascade("navigational(grades=3, stop_needs_click=False)") == find_cascade("navigational", 3, False)
    assert find_cascade("navigational(grades=3)", grades=5, stop_needs_click=False) == find_cascade(
        "navigational", 3, False
    )
    assert find_cascade("random ( grades = 4 )").click == (Fraction(1, 2),) * 4


def test_judged_documents_have_their_grades() -> None:
    person = find_cascade("perfect(grades=2)", judged={"good": 1})
    assert person.distribution(["bad", "good", "unknown"]) == {(2,): Fraction(1)}


def test_a_table_of_ones_own_stays_a_cascade() -> None:
    assert Cascade(click=(0.05, 0.3, 0.5, 0.7, 0.95), stop=(0.2, 0.3, 0.5, 0.7, 0.9)) == find_cascade("navigational")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (
            "navigatonal",
            r"no click table 'navigatonal'; known are 'perfect', 'perfect_linear', 'realistic', .*'random'",
        ),
        ("navigational(grades=4)", r"for 2, 3 or 5 grades, not 4.*Cascade\(click=\.\.\., stop=\.\.\.\)"),
        ("realistic(grades=4)", r"for 2, 3 or 5 grades, not 4"),
        ("random(grades=1)", r"grades cannot be 1; give a whole number from 2 up"),
        ("random(grades=2.5)", r"grades cannot be 2\.5"),
        ("random(grades=True)", r"grades cannot be True"),
        ("random(stop_needs_click=1)", r"stop_needs_click cannot be 1; give True or False"),
        ("random(stop=0.5)", r"no parameter 'stop'.*'grades' or 'stop_needs_click'"),
        ("random(grades=", r"is not a spec"),
    ],
)
def test_an_unknown_name_or_value_is_refused_with_the_remedy(spec: str, says: str) -> None:
    with pytest.raises(ClickError, match=says):
        find_cascade(spec)


def test_a_document_beyond_the_grades_of_a_table_is_refused() -> None:
    with pytest.raises(ClickError, match=r"'d' has grade 4, but the click model knows grades 0 to 2"):
        find_cascade("perfect", grades=3, judged={"d": 4}).sample(["d"])
