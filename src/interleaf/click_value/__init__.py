"""Learned click credit (Yue et al. 2010; C12, section 10): click weights from experiments with a known winner.

click_features.py  the table of click features, and the credit of each click for each ranker
credit_fitting.py  weights of features from sums by user group, and scores of experiments that were left out
learned_credit.py  learned credit as a file, how it scores clicks, and whether it helps
learn.py           `learn`: learns credit from logs, or from saved sums of logs
"""

from interleaf.click_value.click_features import FEATURES, ClickFeature, PageClicks
from interleaf.click_value.learn import TrainingSums, gather, learn
from interleaf.click_value.learned_credit import LearnedCredit, LearningResult

__all__ = [
    "FEATURES",
    "ClickFeature",
    "LearnedCredit",
    "LearningResult",
    "PageClicks",
    "TrainingSums",
    "gather",
    "learn",
]
