"""Parameters that the engine's configuration adds to those of callers, such as the page size of a handler of Solr."""

from __future__ import annotations

import time

from interleaf.proxy.codes import BypassCode, BypassError
from interleaf.proxy.fan_out import FanOut
from interleaf.proxy.search_requests import Pairs, ParsedSearch

KEEP_SECONDS = 60.0  # a change of the engine's configuration is noticed within this time
MAX_KNOWN = 1000  # requests whose answers are kept


class EngineDefaults:
    """Asks the engine for its defaults, once in a minute for each handler."""

    def __init__(self, fan_out: FanOut) -> None:
        self._fan_out = fan_out
        self._known: dict[bytes, tuple[float, Pairs]] = {}

    async def add(self, search: ParsedSearch) -> None:
        """Tell a search the defaults of its engine; raises BypassError if the engine does not say them."""
        request = search.defaults_request
        if request is None:
            return
        until, defaults = self._known.get(request.target, (0.0, []))
        if time.monotonic() >= until:
            try:
                body, _ = await self._fan_out.send(request, statuses=(200, 400))  # Solr's errors say them, too
                defaults = search.read_defaults(body)
            except BypassError:
                raise BypassError(BypassCode.UNKNOWN_DEFAULTS) from None
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[request.target] = time.monotonic() + KEEP_SECONDS, defaults
        search.add_defaults(defaults)
