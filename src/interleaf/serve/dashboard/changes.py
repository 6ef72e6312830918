"""What forms do: the calls of the API, with a page after them; what is refused comes back at its field."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.responses import RedirectResponse, Response

from interleaf.errors import ExperimentError, StateError
from interleaf.methods.table import METHODS
from interleaf.serve import calls
from interleaf.serve.access import OPEN
from interleaf.serve.dashboard import forms
from interleaf.serve.dashboard.pages import HEADERS, Visit, page
from interleaf.store.contract import RUNNING

Call = Callable[..., Awaitable[Response]]


async def new(visit: Visit) -> Response:
    """The form of a new experiment."""
    return _form(visit, forms.defaults())


async def create(visit: Visit) -> Response:
    """Make it, as a draft."""
    return await _sent(visit, calls.create, visit.form.get("name", "").strip())


async def editing(visit: Visit) -> Response:
    """The form with the settings as they are."""
    stored = await visit.service.experiment(visit.name)
    return _form(visit, forms.typed_of(stored.settings), name=visit.name, makes_version=stored.state == RUNNING)


async def edit(visit: Visit) -> Response:
    """Change a draft, or begin a new version."""
    stored = await visit.service.experiment(visit.name)
    visit.form = {**visit.form, "name": visit.name}
    return await _sent(visit, calls.edit, visit.name, makes_version=stored.state == RUNNING)


async def _sent(visit: Visit, call: Call, name: str, makes_version: bool = False) -> Response:
    try:
        await _called(visit, call, forms.data_of(visit.form))
    except (ExperimentError, StateError) as error:
        edited = name if "name" in visit.request.path_params else ""
        return _form(visit, visit.form, error, edited, makes_version)
    return _onward(name)


def _form(
    visit: Visit,
    typed: Mapping[str, str],
    error: ExperimentError | StateError | None = None,
    name: str = "",
    makes_version: bool = False,
) -> Response:
    """An experiment keeps its name; a name that is taken is wrong at its field."""
    status = 200 if error is None else 409 if isinstance(error, StateError) else 422
    if isinstance(error, StateError):
        error = ExperimentError("name", None, str(error))
    return page(
        visit,
        "form.html",
        status,
        groups=forms.groups(typed, error),
        name=name,
        makes_version=makes_version,
        problem="" if error is None else str(error),
        methods=[row for row in METHODS.values() if row.schemes and row.parameters],
    )


async def start(visit: Visit) -> Response:
    """Let it run."""
    await _called(visit, calls.start)
    return _onward(visit.name)


async def stop(visit: Visit) -> Response:
    """End it."""
    await _called(visit, calls.stop)
    return _onward(visit.name)


async def decide(visit: Visit) -> Response:
    """Write down what was decided."""
    await _called(visit, calls.decide, {"decision": visit.form.get("decision", "").strip()})
    return _onward(visit.name)


async def _called(visit: Visit, call: Call, body: Any = None) -> Response:
    """The call that the API has for it."""
    return await call(visit.service, visit.request, msgspec.json.encode(body), visit.who or OPEN)


def _onward(name: str) -> Response:
    return RedirectResponse(f"/experiments/{name}", 303, HEADERS)
