"""Finds the engine that reads a search."""

from __future__ import annotations

from collections.abc import Callable

from interleaf.proxy.config import SOLR, ProxyConfig
from interleaf.proxy.opensearch import OpenSearchSearch
from interleaf.proxy.search_requests import Incoming, ParsedSearch
from interleaf.proxy.solr import SolrSearch


def parser_of(config: ProxyConfig) -> Callable[[Incoming], ParsedSearch]:
    """The function that reads a search of the configured engine."""
    section, link = config.requests, config.clicks.link
    if config.upstream.engine == SOLR:
        return lambda incoming: SolrSearch(incoming, section, link)
    return lambda incoming: OpenSearchSearch(incoming, section, link)
