"""Spec strings: what parses prints the same, defaults are left out, and names of any kind survive."""

import pytest
from hypothesis import given, strategies as st

from interleaf import MethodError, RankingError, interleave, methods
from interleaf.methods.registry import METHODS, resolve
from interleaf.spec import Parameter, parse
from tests.support.worlds import EVERY_SPEC

AWKWARD = [
    *(
        "two words",
        "a,b",
        "it's",
        'say "so"',
        "(paren",
        "paren)",
        "a=b",
        "back\\slash",
        "\\",
        "\\'",
        "",
        " ",
        " padded ",
    ),
    *("3", "3.5", "-1", "1e5", "1_000", "nan", "inf", "True", "False", "None", "über", "产品", "line\nbreak", "tab\t"),
    *("a.b-c_d", "-dash", ".dot", "9lives", "single(ranker=x)", "'quoted'", "٣"),
]


def quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@st.composite
def specs(draw: st.DrawFn) -> str:
    """A spec with some parameters set, in any order and with any spacing."""
    method = METHODS[draw(st.sampled_from(sorted(METHODS)))]
    space = st.sampled_from(["", " ", "  ", "\n"])
    items = []
    for parameter in draw(st.permutations(method.parameters)):
        if draw(st.booleans()):
            equals = f"{draw(space)}={draw(space)}"
            items.append(f"{draw(space)}{parameter.name}{equals}{draw(values(parameter))}{draw(space)}")
    inside = ",".join(items)
    return f"{draw(space)}{method.name}{draw(space)}({inside}){draw(space)}"


def values(parameter: Parameter) -> st.SearchStrategy[str]:
    if parameter.choices:
        words = st.sampled_from(parameter.choices)
        return words.map(lambda value: quoted(value) if isinstance(value, str) and len(value) % 2 else str(value))
    if parameter.default is None:
        return st.text().map(quoted)
    whole = st.integers(1, int(min(parameter.max_value, 10**6))).map(str)
    return whole if parameter.whole else whole | st.floats(1e-3, 50).map(repr)


@given(specs())
def test_what_a_spec_prints_it_parses(text: str) -> None:
    chosen = resolve(text)
    assert str(resolve(str(chosen))) == str(chosen)
    assert resolve(str(chosen)).parameters == chosen.parameters
    assert resolve(chosen) is chosen


@pytest.mark.parametrize("spec", EVERY_SPEC)
def test_a_canonical_spec_prints_as_it_is(spec: str) -> None:
    assert str(resolve(spec)) == spec


@pytest.mark.parametrize("name", sorted(METHODS))
def test_defaults_are_left_out(name: str) -> None:
    parameters = METHODS[name].parameters
    everything = ", ".join(f"{p.name}={p.default}" for p in parameters if p.default is not None)
    assert str(resolve(name)) == str(resolve(f"{name}()")) == str(resolve(f" {name} ( {everything} ) ")) == name
    assert dict(resolve(name).parameters) == {p.name: p.default for p in parameters}


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("probabilistic(tau=3.0)", "probabilistic"),
        ("probabilistic(tau=2.0)", "probabilistic(tau=2)"),
        ("probabilistic(tau=0.50)", "probabilistic(tau=0.5)"),
        ("probabilistic(tau=1e1)", "probabilistic(tau=10)"),
        ("probabilistic(tau=+4)", "probabilistic(tau=4)"),
        ("optimized(samples=1e2)", "optimized(samples=100)"),
        ("team_draft(prefix=True, fill=owned)", "team_draft(fill=owned, prefix=True)"),
        ("team_draft(prefix=True,fill='fair',)", "team_draft(prefix=True)"),
        ("balanced( depth = clicked , fill = False )", "balanced(fill=False, depth=clicked)"),
        ("document_constraint(constraints=lowest)", "document_constraint(constraints=lowest)"),
        ("document_constraint(constraints=1)", "document_constraint"),
        ('single(ranker="production")', "single(ranker=production)"),
        ("single(ranker=v2.1-beta)", "single(ranker=v2.1-beta)"),
        ("single(ranker='3')", "single(ranker='3')"),
        ("single(ranker=None)", "single(ranker=None)"),
    ],
)
def test_a_spec_has_one_print(text: str, printed: str) -> None:
    assert str(resolve(text)) == printed


@pytest.mark.parametrize("name", AWKWARD)
def test_a_ranker_s_name_survives_whatever_is_in_it(name: str) -> None:
    chosen = resolve(f"single(ranker={quoted(name)})")
    assert chosen.parameters["ranker"] == name
    again = resolve(str(chosen))
    assert again.parameters["ranker"] == name
    assert str(again) == str(chosen)
    if not name:  # a spec may hold it, and no ranker may be called so
        with pytest.raises(RankingError, match="empty"):
            interleave({"other": ["a"], name: ["b"]}, str(chosen))
        return
    shown = interleave({"other": ["a"], name: ["b"]}, str(chosen))
    assert shown.documents == ("b",)
    assert shown.teams == (1,)


@given(st.text())
def test_any_name_at_all_survives(name: str) -> None:
    printed = str(resolve(f"single(ranker={quoted(name)})"))
    assert parse(printed) == ("single", {"ranker": name})


@pytest.mark.parametrize("word", ["3", "True", "nan", "1e5"])
def test_a_bare_word_that_looks_like_a_value_is_one(word: str) -> None:
    with pytest.raises(MethodError, match="a name"):
        resolve(f"single(ranker={word})")


ANYTHING = st.text(max_size=30)
ALMOST = st.text(alphabet="abtufilr=(),'\"\\ 13.eE-_True\n", max_size=25)


@given(ANYTHING | st.builds("{}({})".format, st.sampled_from(sorted(METHODS)), ALMOST))
def test_any_text_at_all_is_a_spec_or_a_method_error(text: str) -> None:
    try:
        chosen = resolve(text)
    except MethodError:
        return
    assert str(resolve(str(chosen))) == str(chosen)


def test_the_table_lists_every_method_with_its_words() -> None:
    assert [method.name for method in methods()] == list(METHODS)
    for method in methods():
        assert method.title
        assert method.paper
        assert all(parameter.meaning for parameter in method.parameters)
        assert all(p.default in p.choices for p in method.parameters if p.choices)
        for rankers in (2, 3):
            assert sorted(method.schemes_for(rankers)) == sorted(method.schemes)
