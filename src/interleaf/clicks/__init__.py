"""Models of people: they sample clicks on a shown list, and give the exact distribution of click patterns.

`named` finds those of the literature; `clicks.fit` learns others from the result pages of a log (`clicks.pages`).
"""

from interleaf.clicks.cascade import Cascade
from interleaf.clicks.independent import Independent, PositionBased
from interleaf.clicks.model import ClickModel
from interleaf.clicks.named_cascades import TABLES, Table, named, scale_of
from interleaf.clicks.one_click import Intents, OneClick

__all__ = [  # noqa: RUF022, as `sorted` sorts
    "Cascade",
    "ClickModel",
    "Independent",
    "Intents",
    "OneClick",
    "PositionBased",
    "TABLES",
    "Table",
    "named",
    "scale_of",
]
