"""Compares new rankers on an old log that never showed their lists.

old_log.py        the log: its queries and methods, its rankers' rankings, its impressions
new_rankings.py   new rankings, and the ranks of old lists in them
list_outcomes.py  probabilities of lists, and their scores for new rankers
click_model.py    a click model of the log, and the scores that it expects
estimators.py     weighted means by bucket of users, and the doubly robust estimate with its jackknife
reuse.py          `reuse`: from log and rankings to estimates, warnings, and the plan of a live experiment
reuse_result.py   the result, as data, text and Markdown
"""

from interleaf.counterfactual.reuse import reuse
from interleaf.counterfactual.reuse_result import PairEstimate, ReuseResult

__all__ = ["PairEstimate", "ReuseResult", "reuse"]
