"""interleaf: online evaluation of rankers by interleaving.

    rankings ──compose──▶ shown ──people──▶ clicks ──credit──▶ outcome
                 ▲                                   (methods/ again)
               key                  ──log──▶ decode ──▶ score ──▶ tally ──▶ stats ──▶ report

`interleave` mixes rankings into one list, and `credit` says which ranker the clicks on it prefer; `interleave_batch`
and `credit_batch` do this for many lists. `LogWriter` logs lists and clicks. `analyze` makes a report from a log,
`plan` says how many people an experiment needs, and `plan_methods` how many with each method. `learn` says what a click
is worth, `caption` whether captions explain a preference, and `reuse` how new rankers would compare. `Client` asks the
live service (`interleaf serve`) for lists, and `assign` says who takes part in an `Experiment`. `audit` proves what
each method claims; `simulate` makes logs of simulated people.
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
    from interleaf.analysis.method_plans import plan_methods
    from interleaf.analysis.plan import plan
    from interleaf.caption_bias.caption import caption
    from interleaf.click_value.learn import learn
    from interleaf.client import AsyncClient, Client, visitor_id
    from interleaf.counterfactual.reuse import reuse
    from interleaf.decode.columns import Exclusion
    from interleaf.experiment import Experiment, assign
    from interleaf.interleaving.batch import credit_batch, interleave_batch
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
    "caption",
    "clicks",
    "credit",
    "credit_batch",
    "interleave",
    "interleave_batch",
    "learn",
    "methods",
    "plan",
    "plan_methods",
    "reuse",
    "simulate",
    "tally_log",
    "visitor_id",
    "warm",
]


_LATER = {
    "analysis.analyze": ("analyze", "tally_log"),
    "analysis.method_plans": ("plan_methods",),
    "analysis.plan": ("plan",),
    "caption_bias": ("caption",),
    "click_value": ("learn",),
    "client": ("AsyncClient", "Client", "visitor_id"),
    "counterfactual": ("reuse",),
    "decode.columns": ("Exclusion",),
    "experiment": ("Experiment", "assign"),
    "interleaving.batch": ("credit_batch", "interleave_batch"),
    "log": ("LogWriter",),
    "report.report": ("Report",),
    "tally": ("Tally",),
}


def __getattr__(name: str) -> Any:
    """Import on first use what needs the compiler or Arrow."""
    if name in ("audit", "clicks", "simulate"):
        return import_module(f"interleaf.{name}")
    for module, names in _LATER.items():
        if name in names:
            return getattr(import_module(f"interleaf.{module}"), name)
    raise AttributeError(f"module 'interleaf' has no attribute {name!r}")
