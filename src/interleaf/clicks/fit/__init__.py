"""Click models learned from the result pages of a log, and how well each foretells pages it has not seen.

    pages ──fit──▶ fitted model ──▶ click_probabilities · log_likelihood · perplexity (of any pages)

`rank_only` is the baseline that any model must beat; `fit_position_based` and `fit_cascade` know documents, too.
"""

from interleaf.clicks.fit.fitted import Fitted, Perplexity, Report
from interleaf.clicks.fit.models import (
    FittedCascade,
    FittedPositionBased,
    GradeOf,
    RankOnly,
    fit_cascade,
    fit_position_based,
    rank_only,
)

__all__ = [
    "Fitted",
    "FittedCascade",
    "FittedPositionBased",
    "GradeOf",
    "Perplexity",
    "RankOnly",
    "Report",
    "fit_cascade",
    "fit_position_based",
    "rank_only",
]
