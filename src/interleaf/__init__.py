"""interleaf: online evaluation of rankers by interleaving.

    rankings ──compose──▶ shown ──people──▶ clicks ──credit──▶ outcome
                 ▲                                   (methods/ again)
              chance                ──log──▶ decode ──▶ score ──▶ tally ──▶ stats ──▶ report

`interleave` mixes rankings into one list, fairly; people click; `credit` says whom the clicks prefer. `LogWriter` keeps
both, and `analyze` makes of a log a report with a verdict; `plan` says how many people that takes. `Client` asks the
live service, `interleaf serve`, for lists; `assign` says who takes part in an `Experiment`. `audit` proves what each
method claims, by enumerating the very code that serves; `simulate` makes worlds whose truth is known.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from interleaf.errors import (
    ClickError,
    ClientError,
    DataError,
    ExperimentError,
    InterleafError,
    ListError,
    MethodError,
    MissingExtraError,
    RandomnessError,
    RankingError,
    SchemeError,
    StateError,
    StoreError,
)
from interleaf.interleaving.api import Interleaving, Outcome, credit, interleave, warm
from interleaf.methods.registry import methods

if TYPE_CHECKING:
    from interleaf import audit, clicks, simulate
    from interleaf.analysis.analyze import analyze, tally_log
    from interleaf.analysis.plan import plan
    from interleaf.client import AsyncClient, Client, visitor_id
    from interleaf.decode.attributes import Exclusion
    from interleaf.experiment import Experiment, assign
    from interleaf.log import LogWriter
    from interleaf.report.report import Report
    from interleaf.tally import Tally

__version__ = "0.1.0"
__all__ = [
    "AsyncClient",
    "ClickError",
    "Client",
    "ClientError",
    "DataError",
    "Exclusion",
    "Experiment",
    "ExperimentError",
    "InterleafError",
    "Interleaving",
    "ListError",
    "LogWriter",
    "MethodError",
    "MissingExtraError",
    "Outcome",
    "RandomnessError",
    "RankingError",
    "Report",
    "SchemeError",
    "StateError",
    "StoreError",
    "Tally",
    "analyze",
    "assign",
    "audit",
    "clicks",
    "credit",
    "interleave",
    "methods",
    "plan",
    "simulate",
    "tally_log",
    "visitor_id",
    "warm",
]


_LATER = {
    "AsyncClient": "interleaf.client",
    "Client": "interleaf.client",
    "Exclusion": "interleaf.decode.attributes",
    "Experiment": "interleaf.experiment",
    "LogWriter": "interleaf.log",
    "Report": "interleaf.report.report",
    "Tally": "interleaf.tally",
    "analyze": "interleaf.analysis.analyze",
    "assign": "interleaf.experiment",
    "plan": "interleaf.analysis.plan",
    "tally_log": "interleaf.analysis.analyze",
    "visitor_id": "interleaf.client",
}


def __getattr__(name: str) -> Any:
    """What brings the compiler or Arrow along is imported when it is asked for."""
    if name in ("audit", "clicks", "simulate"):
        return import_module(f"interleaf.{name}")
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'interleaf' has no attribute {name!r}")
