"""Clients of the service, on the standard library: its outages change no page that people see, and lose nothing."""

from interleaf.client.clients import AsyncClient as AsyncClient
from interleaf.client.clients import Client as Client
from interleaf.client.fallback import Answer as Answer
from interleaf.client.fallback import EventCounts as EventCounts
from interleaf.client.fallback import Status as Status
from interleaf.client.visitors import VisitorId as VisitorId
from interleaf.client.visitors import visitor_id as visitor_id
