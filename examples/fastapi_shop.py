"""A shop on FastAPI that gets its lists from the interleaf service.

    interleaf serve --store shop.sqlite --port 8080          # create and start the experiment "shop" on its page
    INTERLEAF_URL=http://127.0.0.1:8080 uvicorn --factory examples.fastapi_shop:create_app --port 8000

Then open http://127.0.0.1:8000/search?q=rain+jacket. If the service is down, the shop shows lists all the same.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response

from examples.catalogue import rankings
from interleaf import AsyncClient, visitor_id

EXPERIMENT = "shop"


def create_app(service: str | None = None, **options: Any) -> FastAPI:
    """The shop; `options` are those of `interleaf.Client`. The client lives as long as the app."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        url = service or os.environ["INTERLEAF_URL"]
        async with AsyncClient(url, os.environ.get("INTERLEAF_KEY"), **options) as client:
            app.state.client = client
            yield

    app = FastAPI(title="Shop", lifespan=lifespan)

    @app.get("/search")
    async def search(request: Request, response: Response, q: str) -> dict[str, Any]:
        """The mixed list. A cookie identifies the visitor, so that the same visitor sees the same list again."""
        visitor = visitor_id(request.cookies)
        if visitor.set_cookie:
            response.headers["Set-Cookie"] = visitor.set_cookie
        answer = await app.state.client.interleave(EXPERIMENT, rankings(q), unit=visitor.id, query=q, k=5)
        return {"impression": answer.impression, "products": answer.documents}

    @app.get("/products/{name}")
    async def product(name: str, impression: str | None = None, rank: int = 0) -> dict[str, str]:
        """A product's page. The links of the result list name the impression and the rank: this is the click."""
        await app.state.client.click(impression, rank)
        return {"name": name}

    return app
