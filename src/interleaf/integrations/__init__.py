"""Retrievers of LangChain, LlamaIndex and Haystack that mix the passages of several others, and log citations.

timed_calls.py    several calls at once within a time budget
passage_mixer.py  mixes the passages of several retrievers, also if some of them fail; reads documents
passage_log.py    makes lists and logs them, with a `LogWriter` or a client of the service
citations.py      finds the citations in an answer, and logs them
langchain.py, llama_index.py, haystack.py  the retrievers
"""

from interleaf.integrations.citations import Citations, find_citations, log_citations, log_citations_async
from interleaf.integrations.passage_mixer import identify_by_content, identify_document
from interleaf.integrations.timed_calls import FallbackCode

__all__ = [
    "Citations",
    "FallbackCode",
    "find_citations",
    "identify_by_content",
    "identify_document",
    "log_citations",
    "log_citations_async",
]
