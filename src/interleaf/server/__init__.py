"""The live service: HTTP interface and dashboard over a store."""

from interleaf.environment import require

require("serve", "the service needs", "starlette", "uvicorn", "httptools")
