"""interleaf: online evaluation of rankers by interleaving.

    rankings ──compose──▶ shown ──people──▶ clicks ──credit──▶ outcome
                 ▲                                   (methods/ again)
              chance

`interleave` mixes rankings into one list, fairly; people click; `credit` says whom the clicks prefer. `audit`
proves what each method claims, by enumerating the very code that serves.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from interleaf.errors import (
    ChanceError,
    ClickError,
    DataError,
    InterleafError,
    ListError,
    MethodError,
    RankingError,
    SchemeError,
)
from interleaf.interleaving import Interleaving, Outcome, credit, interleave, warm
from interleaf.methods.table import methods

if TYPE_CHECKING:
    from interleaf import audit, clicks, simulate

__version__ = "0.1.0"
__all__ = [
    "ChanceError",
    "ClickError",
    "DataError",
    "InterleafError",
    "Interleaving",
    "ListError",
    "MethodError",
    "Outcome",
    "RankingError",
    "SchemeError",
    "audit",
    "clicks",
    "credit",
    "interleave",
    "methods",
    "simulate",
    "warm",
]


def __getattr__(name: str) -> Any:
    """Rooms that bring the compiler along are imported when they are asked for."""
    if name in ("audit", "clicks", "simulate"):
        return import_module(f"interleaf.{name}")
    raise AttributeError(f"module 'interleaf' has no attribute {name!r}")
