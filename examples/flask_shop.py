"""A shop on Flask that mixes lists in its own process and writes its own log; no service is needed.

    SHOP_LOG=log flask --app examples.flask_shop run --port 8000
    interleaf analyze log --control production

Open http://127.0.0.1:8000/search?q=rain+jacket. Any number of processes may write to the same folder.
"""

import atexit
import os
from pathlib import Path
from typing import Any

from flask import Flask, jsonify, request
from flask.typing import ResponseReturnValue

import interleaf
from examples.catalogue import rankings

EXPERIMENT = "shop"


def create_app(folder: str | None = None) -> Flask:
    """The shop; it writes its log into `folder`."""
    path = Path(folder or os.environ["SHOP_LOG"])
    path.mkdir(parents=True, exist_ok=True)
    app = Flask("shop")
    app.extensions["log"] = log = interleaf.LogWriter(path, experiment=EXPERIMENT)
    atexit.register(log.close)

    @app.get("/search")
    def search() -> ResponseReturnValue:
        """The mixed list. Its key decides all randomness: the same visitor sees the same list again."""
        query = request.args["q"]
        visitor = interleaf.visitor_id(request.cookies)
        shown = interleaf.interleave(rankings(query), k=5, key=(EXPERIMENT, visitor.id, query))
        impression = log.impression(shown, unit=visitor.id, query=query)
        response = jsonify(impression=impression, products=shown.documents)
        if visitor.set_cookie:
            response.headers["Set-Cookie"] = visitor.set_cookie
        return response

    @app.get("/products/<name>")
    def product(name: str) -> dict[str, Any]:
        """A product's page. The links of the result list name the impression and the rank: this is the click."""
        impression, rank = request.args.get("impression"), request.args.get("rank", type=int)
        if impression and rank:
            log.event(impression, "click", rank=rank)
        return {"name": name}

    return app
