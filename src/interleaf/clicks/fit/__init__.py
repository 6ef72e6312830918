"""Click models learned from the result pages of a log, and how well each foretells pages it has not seen.

    pages ──fit──▶ fitted model ──▶ click_probabilities · log_likelihood · perplexity (of any pages)

`rank_only` is the baseline that any model must beat; `fit_position_based` and `fit_cascade` know documents, too.
"""

from interleaf.clicks.fit.cascade import FittedCascade, fit_cascade
from interleaf.clicks.fit.fitted import Fitted, Perplexity
from interleaf.clicks.fit.position_based import FittedPositionBased, GradeOf, fit_position_based
from interleaf.clicks.fit.rank_only import RankOnly, rank_only
from interleaf.clicks.fit.smoothing import Report

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
