"""What forms do: the calls of the API, with a page after them; what is refused comes back at its field."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.responses import RedirectResponse, Response

from interleaf.errors import ExperimentError, StateError
from interleaf.experiment.settings import NOTES, SETTINGS
from interleaf.methods.table import METHODS
from interleaf.serve import endpoints
from interleaf.serve.access import OPEN
from interleaf.serve.dashboard import forms
from interleaf.serve.dashboard.pages import HEADERS, Visit, page
from interleaf.store.contract import DECIDED, DRAFT, RUNNING, STOPPED

Call = Callable[..., Awaitable[Response]]
OVER = (STOPPED, DECIDED)
NOTES_GROUP = "Notes"


async def new(visit: Visit) -> Response:
    """The form of a new experiment."""
    return _form(visit, forms.defaults())


async def create(visit: Visit) -> Response:
    """Make it, as a draft."""
    return await _sent(visit, endpoints.create, visit.form.get("name", "").strip())


async def editing(visit: Visit) -> Response:
    """The form with the settings as they are."""
    stored = await visit.service.experiment(visit.name)
    return _form(visit, forms.typed_of(stored.settings), name=visit.name, state=stored.state)


async def edit(visit: Visit) -> Response:
    """Change a draft, or begin a new version."""
    stored = await visit.service.experiment(visit.name)
    if stored.state in OVER:  # the form has its notes only
        notes = {field: visit.form.get(field, "") for field in NOTES}
        visit.form = forms.typed_of(stored.settings) | notes
    visit.form = {**visit.form, "name": visit.name}
    return await _sent(visit, endpoints.edit, visit.name, stored.state)


async def _sent(visit: Visit, call: Call, name: str, state: str = DRAFT) -> Response:
    edited, data = name if "name" in visit.request.path_params else "", forms.data_of(visit.form)
    wrong, status = forms.wrong_in(data), 422
    if not wrong:
        try:
            await _called(visit, call, data)
            return _onward(name)
        except ExperimentError as error:
            wrong = {error.field: forms.sentence(error.remedy)}
        except StateError as error:
            wrong, status = {"name": forms.sentence(str(error))}, 409
    return _form(visit, visit.form, wrong, edited, state, status)


def _form(
    visit: Visit,
    typed: Mapping[str, str],
    wrong: Mapping[str, str] | None = None,
    name: str = "",
    state: str = DRAFT,
    status: int = 200,
) -> Response:
    """An experiment keeps its name; a name that is taken is wrong at its field."""
    told = " ".join(f"{_label(field)}: {remedy}" for field, remedy in (wrong or {}).items())
    return page(
        visit,
        "form.html",
        status,
        groups=forms.groups(typed, wrong, NOTES_GROUP if state in OVER else None),
        name=name,
        makes_version=state == RUNNING,
        is_over=state in OVER,
        problem=f"Nothing was saved. {told}" if told else "",
        methods=[row for row in METHODS.values() if row.schemes and row.parameters],
    )


def _label(field: str) -> str:
    return str(SETTINGS[field].metadata["label"]) if field in SETTINGS else field


async def start(visit: Visit) -> Response:
    """Let it run."""
    await _called(visit, endpoints.start)
    return _onward(visit.name)


async def stop(visit: Visit) -> Response:
    """End it."""
    await _called(visit, endpoints.stop)
    return _onward(visit.name)


async def decide(visit: Visit) -> Response:
    """Write down what was decided."""
    await _called(visit, endpoints.decide, {"decision": visit.form.get("decision", "").strip()})
    return _onward(visit.name)


async def archive(visit: Visit) -> Response:
    """Stop it if it runs, and hide it from lists."""
    await _called(visit, endpoints.archive)
    return _onward(visit.name)


async def unarchive(visit: Visit) -> Response:
    """Show it in lists again."""
    await _called(visit, endpoints.unarchive)
    return _onward(visit.name)


async def delete(visit: Visit) -> Response:
    """Delete it with all its rows, if its name was typed."""
    stored = await visit.service.experiment(visit.name)
    await endpoints.deleted(visit.service, stored.settings.name, visit.form.get("confirm", "").strip())
    return RedirectResponse("/", 303, HEADERS)


async def _called(visit: Visit, call: Call, body: Any = None) -> Response:
    """The call that the API has for it."""
    return await call(visit.service, visit.request, msgspec.json.encode(body), visit.who or OPEN)


def _onward(name: str) -> Response:
    return RedirectResponse(f"/experiments/{name}", 303, HEADERS)
