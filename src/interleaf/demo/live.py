"""The experiment of the demo, over HTTP as anyone would run it: made, started, and its report read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from interleaf.errors import InterleafError
from interleaf.report.report import Report

NAME = "demo"
PLANNED_UNITS, HOLDOUT = 300, 0.05
PATIENCE = 300.0  # seconds for an answer: the first ones compile, on a slow machine for a minute
_PATH = f"/v1/experiments/{NAME}"


class Live:
    """The experiment `demo` of a service."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opener = build_opener(ProxyHandler({}))  # the service is on this machine, whatever is set for others

    def begin(self, rankers: Sequence[str]) -> None:
        """Make and start it; in a store that has it running already, go on with that."""
        settings = {"name": NAME, "rankers": list(rankers), "planned_units": PLANNED_UNITS}
        status, found = self._ask("GET", _PATH)
        if status == 401:
            raise InterleafError("the store has keys, and the demo has none; give another --store, or leave it out")
        if status == 404:
            _, found = self._ask("POST", "/v1/experiments", settings | {"holdout": HOLDOUT, "by": ["device"]})
        if found.get("state") == "draft":
            _, found = self._ask("POST", f"{_PATH}/start")
        if "error" in found:
            raise InterleafError(f"the experiment of the demo cannot run: {found['error']['message']}")
        if found["state"] != "running" or found["settings"]["rankers"] != settings["rankers"]:
            raise InterleafError(
                f"the store holds another experiment {NAME!r}, {found['state']}, of {found['settings']['rankers']}; "
                "give another --store, or leave it out"
            )

    def report(self) -> Report | None:
        """How it stands now; None before the first list was shown."""
        status, found = self._ask("GET", f"{_PATH}/report")
        if status != 200:
            raise InterleafError(f"there is no report of the demo: {found['error']['message']}")
        return Report.from_dict(next(iter(found["reports"].values()))) if found["reports"] else None

    def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status of an answer, and its JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with self._opener.open(request, timeout=PATIENCE) as reply:
                return reply.status, json.load(reply)
        except HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)
        except (URLError, TimeoutError) as problem:
            raise InterleafError(f"the service of the demo does not answer: {problem}") from None
