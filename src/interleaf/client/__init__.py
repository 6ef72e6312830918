"""Clients of the service, without dependencies. During an outage, pages are still served, and nothing is lost."""

from interleaf.client.clients import AsyncClient as AsyncClient
from interleaf.client.clients import Client as Client
from interleaf.client.fallback import Answer as Answer
from interleaf.client.fallback import EventCounts as EventCounts
from interleaf.client.fallback import Status as Status
from interleaf.client.visitors import VisitorId as VisitorId
from interleaf.client.visitors import visitor_id as visitor_id
