"""`interleaf proxy`: a reverse proxy in front of a search engine that interleaves the rankers' answers to searches.

config.py reads the TOML file, and app.py answers requests: searches that take part go to search.py, all others pass
through to the engine. opensearch.py and solr.py know the engines' requests and answers.
"""

from interleaf.environment import require

require("proxy", "the proxy needs", "starlette", "uvicorn", "httptools", "prometheus_client")
