"""Clients of the service, on the standard library: its outages change no page that people see, and lose nothing."""

from interleaf.client.asynchronous import AsyncClient as AsyncClient
from interleaf.client.responses import Answer as Answer
from interleaf.client.responses import Status as Status
from interleaf.client.responses import Taken as Taken
from interleaf.client.synchronous import Client as Client
from interleaf.client.visitor_cookie import VisitorId as VisitorId
from interleaf.client.visitor_cookie import visitor_id as visitor_id
