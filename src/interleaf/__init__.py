"""interleaf: online evaluation of rankers by interleaving.

    rankings ──compose──▶ shown ──people──▶ clicks ──credit──▶ outcome
                 ▲                                   (methods/ again)
              chance

`interleave` mixes rankings into one list, fairly; people click; `credit` says whom the clicks prefer. `audit`
proves what each method claims, by enumerating the very code that serves.
"""

from interleaf.errors import (
    ChanceError,
    ClickError,
    InterleafError,
    ListError,
    MethodError,
    RankingError,
    SchemeError,
)
from interleaf.interleaving import Interleaving, Outcome, credit, interleave, warm
from interleaf.methods.table import methods

__version__ = "0.1.0"
