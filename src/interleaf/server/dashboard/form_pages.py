"""Forms generated from the table of settings, and their actions: create, edit, start, stop, decide, archive, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.responses import RedirectResponse, Response

from interleaf.errors import ExperimentError, StateError
from interleaf.experiment import Experiment
from interleaf.experiment.choose import CHOICE_SETTINGS
from interleaf.experiment.settings import ATTRIBUTIONS, MODES, NOTES, SETTINGS
from interleaf.methods.registry import ALL_SCHEMES, DEFAULT, METHODS, ONE_LIST
from interleaf.plain_data import MAX_LINE, schema_of, without_none
from interleaf.server import endpoints
from interleaf.server.auth import OPEN
from interleaf.server.dashboard.visit import HEADERS, Visit, page
from interleaf.store.records import DECIDED, DRAFT, RUNNING, STOPPED

GROUPS = {
    "Rankers and method": ("name", "rankers", "mode", "control", "method", "scheme", "k"),
    "Notes": NOTES,
    "Traffic": ("share", "lane", "offset", "holdout"),
    "Events": ("events", "browser_events", "values", "value_cap", "primary", "attribution", "window_minutes"),
    "Analysis settings": ("planned_units", "confidence", "margin", "value_margin", "guardrails", "by"),
    "Choice of the best of many": CHOICE_SETTINGS,
    "Automatic stop": ("stop_when", "max_units"),
    "Bots to exclude": ("bot_agents", "bot_units", "bot_rate", "bot_clicks"),
}
OPEN_GROUPS = 2  # the other groups are collapsed: their defaults usually fit
PARAMETERS = "method_parameters"
_MEANINGS = (
    "compare the rankers in mixed lists",
    "choose the best of many rankers: epoch by epoch, better rankers get more traffic",
    "compare the rankers, each unit sees the list of one (an A/B test on clicks)",
    "A/A test: every ranker gets the control's list",
    "A/A test: the rankers' names are swapped at random",
    "known loser: the other rankers get the control's list reversed",
    "are not counted",
    "count for the last list that showed the document",
    "count for every list that showed the document",
    "count for a list of the ranker that showed it most",
)
CHOICES = dict(zip((*MODES, *ATTRIBUTIONS), _MEANINGS, strict=True))
_NEEDED = ("name", "rankers")
_EXAMPLES = {
    "events": "such as click=1, purchase=5",
    "guardrails": "such as abandonment=0.02, latency=20, event:purchase=0.01",
}
_COMMAS = ("by", "tags")  # lists whose items contain no commas
_ON_ONE_LINE = ("rankers",)  # lists of at least two items: a single line is split at its commas


@dataclass(frozen=True)
class Field:
    """A field of a form: its widget (line, number, lines or choice), its value and its error."""

    name: str
    label: str
    meaning: str
    widget: str
    value: str
    choices: Mapping[str, str]
    needed: bool
    hint: str
    error: str


def groups(
    typed: Mapping[str, str], wrong: Mapping[str, str] | None = None, only: str | None = None
) -> list[tuple[str, list[Field], bool]]:
    """The fields of all settings in groups, each with its title and whether it is expanded; with `only`, that group.

    Fields are filled with what was typed. A group with an error is expanded.
    """
    rest = [name for name in SETTINGS if not any(name in names for names in GROUPS.values())]
    all_groups = []
    for place, (title, names) in enumerate((*GROUPS.items(), ("More", tuple(rest)))):
        fields = [_field(name, typed, (wrong or {}).get(name, "")) for name in names]
        if "method" in names:
            label, meaning = "Parameters of the method", "parameters of the method that differ from its defaults"
            value, hint = typed.get(PARAMETERS, ""), "such as tau=1"
            parameters = Field(PARAMETERS, label, meaning, "line", value, {}, False, hint, "")
            fields.insert(names.index("method") + 1, parameters)
        if fields and only in (None, title):
            all_groups.append((title, fields, place < OPEN_GROUPS or any(field.error for field in fields)))
    return all_groups


def _field(name: str, typed: Mapping[str, str], wrong: str) -> Field:
    setting = SETTINGS[name]
    widget, hint, choices = "line", _EXAMPLES.get(name, ""), dict[str, str]()
    match _schema(name):
        case {"enum": words}:
            widget, choices = "choice", {word: CHOICES.get(word, word) for word in words}
        case {"minimum": least, "maximum": most}:
            widget, hint = "number", f"{least:g} to {most:,g}"
        case {"maxLength": most} if most > MAX_LINE:
            widget = "lines"
        case {"items": item}:
            widget, hint = "lines", f"{', '.join(item['enum'])}; one per line" if "enum" in item else "one per line"
            hint += ", or with commas" * (name in _COMMAS) + ", or all on one line with commas" * (name in _ON_ONE_LINE)
    if name == "method":
        widget, choices = "choice", {row.name: row.title for row in METHODS.values() if row.schemes}
    elif name == "scheme":
        widget, choices = "choice", {"": "the method's own", **{scheme: scheme for scheme in ALL_SCHEMES}}
    elif name == "control":
        hint = "the first ranker by default"
    meaning = setting.meaning.replace("null: ", "left out: ")
    return Field(name, setting.label, meaning, widget, typed.get(name, ""), choices, name in _NEEDED, hint, wrong)


def typed_of(settings: Experiment) -> dict[str, str]:
    """Settings as texts of form fields."""
    typed = {name: _text(value) for name, value in settings.to_dict().items()}
    method = DEFAULT if settings.mode == ONE_LIST else settings.method  # the form does not offer the method `one_list`
    method, _, parameters = method.partition("(")
    return typed | {"method": method, PARAMETERS: parameters.removesuffix(")")}


def defaults() -> dict[str, str]:
    """The values of a new form: the defaults."""
    plain = Experiment.of({"name": "x", "rankers": ["a", "b"]})
    return typed_of(plain) | {"name": "", "rankers": "", "control": ""}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{kind}={weight:.15g}" for kind, weight in value.items())
    if isinstance(value, list):
        return "\n".join(value)
    return "" if value is None else f"{value:.15g}" if isinstance(value, float) else str(value)


def data_of(typed: Mapping[str, str]) -> dict[str, Any]:
    """Plain data for `Experiment.of`, which checks it; empty fields are omitted.

    >>> data_of({"name": "shoes", "rankers": "old\\nnew", "k": "10", "events": "click=1, purchase=5"})
    {'name': 'shoes', 'rankers': ['old', 'new'], 'k': 10, 'events': {'click': 1.0, 'purchase': 5.0}}

    Rankers on one line are separated by commas. If each is on its own line, a comma is part of a name.

    >>> data_of({"rankers": "old, new"}), data_of({"rankers": "old, slow\\nnew"})
    ({'rankers': ['old', 'new']}, {'rankers': ['old, slow', 'new']})
    """
    data = {}
    for name in SETTINGS:
        text = typed.get(name, "").strip()
        if text:
            is_split = name in _COMMAS or (name in _ON_ONE_LINE and len(text.splitlines()) == 1)
            data[name] = _value(name, text.replace(",", "\n") if is_split else text)
    parameters = typed.get(PARAMETERS, "").strip()
    if parameters and "method" in data:
        data["method"] = f"{data['method']}({parameters})"
    return data


def wrong_in(data: Mapping[str, Any]) -> dict[str, str]:
    """The error message of each invalid field.

    >>> wrong_in({"name": "shoes", "k": "ten"})
    {'rankers': 'This is needed.', 'k': 'Give a whole number from 1 to 200.'}
    """
    problems = {name: "This is needed." for name in _NEEDED if name not in data}
    for name, value in data.items():
        try:
            SETTINGS[name].check(value)
        except ValueError as remedy:
            problems[name] = sentence(str(remedy))
    return problems


def sentence(remedy: str) -> str:
    """A remedy as a sentence; the field next to it shows the value."""
    return f"{remedy[:1].upper()}{remedy[1:].rstrip('.')}."


def _schema(name: str) -> dict[str, Any]:
    """The JSON schema of the values of a setting, null aside."""
    return schema_of(without_none(SETTINGS[name].type))


def _value(name: str, text: str) -> Any:
    """The value as JSON would hold it; text that is not a number stays text, which the check refuses.

    The same name twice has both numbers as a text.
    """
    kind = _schema(name)["type"]
    if kind == "array":
        return [line.strip() for line in text.splitlines() if line.strip()]
    if kind in ("integer", "number"):
        return _number(text, kind == "integer")
    if kind == "object":
        usual = "1" if name == "events" else ""  # a kind of event has a default weight
        pairs = [part.rpartition("=") if "=" in part else (part, "", usual) for part in text.split(",") if part.strip()]
        weights: dict[str, list[str]] = {}
        for name, _, weight in pairs:
            weights.setdefault(name.strip(), []).append(weight.strip())
        return {name: _number(", ".join(some), False) for name, some in weights.items()}
    return text


def _number(text: str, whole: bool) -> float | int | str:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        return text


Call = Callable[..., Awaitable[Response]]
Texts = Mapping[str, str]
OVER = (STOPPED, DECIDED)


async def show_new(visit: Visit) -> Response:
    """The form of a new experiment."""
    return _form(visit, defaults())


async def create(visit: Visit) -> Response:
    """Create a draft."""
    return await _save(visit, endpoints.create, visit.form.get("name", "").strip())


async def show_edit(visit: Visit) -> Response:
    """The form with the current settings."""
    stored = await visit.service.experiment(visit.name)
    return _form(visit, typed_of(stored.settings), name=visit.name, state=stored.state)


async def edit(visit: Visit) -> Response:
    """Change a draft, or create a new version of a running experiment."""
    stored = await visit.service.experiment(visit.name)
    if stored.state in OVER:  # the form has only the notes
        visit.form = typed_of(stored.settings) | {field: visit.form.get(field, "") for field in NOTES}
    visit.form = {**visit.form, "name": visit.name}
    return await _save(visit, endpoints.edit, visit.name, stored.state)


async def _save(visit: Visit, call: Call, name: str, state: str = DRAFT) -> Response:
    edited, data = name if "name" in visit.request.path_params else "", data_of(visit.form)
    wrong, status = wrong_in(data), 422
    if not wrong:
        try:
            await _call(visit, call, data)
            return _onward(name)
        except ExperimentError as error:
            wrong = {error.field: sentence(error.remedy)}
        except StateError as error:
            wrong, status = {"name": sentence(str(error))}, 409
    return _form(visit, visit.form, wrong, edited, state, status)


def _form(
    visit: Visit, typed: Texts, wrong: Texts | None = None, name: str = "", state: str = DRAFT, status: int = 200
) -> Response:
    """The page with the form. The name of an existing experiment cannot be edited."""
    labels = {name: setting.label for name, setting in SETTINGS.items()}
    problems = " ".join(f"{labels.get(field, field)}: {remedy}" for field, remedy in (wrong or {}).items())
    return page(
        visit,
        "form.html",
        status,
        groups=groups(typed, wrong, "Notes" if state in OVER else None),
        name=name,
        makes_version=state == RUNNING,
        is_over=state in OVER,
        problem=f"Nothing was saved. {problems}" if problems else "",
        methods=[row for row in METHODS.values() if row.schemes and row.parameters],
    )


def action(call: Call, *fields: str) -> Callable[[Visit], Awaitable[Response]]:
    """A handler that makes an API call, with these form fields as its body."""

    async def run(visit: Visit) -> Response:
        await _call(visit, call, {field: visit.form.get(field, "").strip() for field in fields})
        return _onward(visit.name)

    return run


async def delete(visit: Visit) -> Response:
    """Delete an experiment with all its rows, if its name was typed to confirm."""
    await endpoints.delete_confirmed(visit.service, visit.request, visit.form.get("confirm", "").strip())
    return RedirectResponse("/", 303, HEADERS)


async def _call(visit: Visit, call: Call, body: Any = None) -> Response:
    """Run an API call."""
    return await call(visit.service, visit.request, msgspec.json.encode(body), visit.who or OPEN)


def _onward(name: str) -> Response:
    return RedirectResponse(f"/experiments/{name}", 303, HEADERS)
