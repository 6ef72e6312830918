"""Clients of the service, without dependencies. During an outage, pages are still served, and nothing is lost."""

from interleaf.client.clients import AsyncClient, Client
from interleaf.client.fallback import Answer, EventCounts, RankerChoice, Status
from interleaf.client.visitors import VisitorId, visitor_id

__all__ = ["Answer", "AsyncClient", "Client", "EventCounts", "RankerChoice", "Status", "VisitorId", "visitor_id"]
