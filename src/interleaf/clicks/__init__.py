"""Click models: they draw clicks on a shown list, and give the exact distribution of click patterns.

`named` returns the click models of the literature; `clicks.fit` fits models to the result pages of a log.
"""

from interleaf.clicks.click_models import (
    TABLES,
    Cascade,
    ClickModel,
    ClickTable,
    Independent,
    Intents,
    OneClick,
    PositionBased,
    find_cascade,
    scale_of,
)

__all__ = [  # noqa: RUF022, as `sorted` sorts
    "Cascade",
    "ClickModel",
    "ClickTable",
    "Independent",
    "Intents",
    "OneClick",
    "PositionBased",
    "TABLES",
    "find_cascade",
    "scale_of",
]
