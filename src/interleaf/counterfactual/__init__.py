"""Old impressions for new rankers: from a log, and rankings that it never showed, how the new rankers compare.

old_log.py        the log: its queries and methods, its rankers' rankings, its impressions
new_rankings.py   new rankings, and old lists as the new rankers see them
list_outcomes.py  list probabilities, and what an old list and its clicks say of new rankers
click_model.py    a click model of the log, and what it expects of lists
estimators.py     weighted means by bucket of users, and the doubly robust estimate with its jackknife
reuse.py          `reuse`: from log and rankings to estimates, warnings, and the plan of a live experiment
reuse_result.py   the result, as data, text and Markdown
"""

from interleaf.counterfactual.reuse import reuse as reuse
from interleaf.counterfactual.reuse_result import PairEstimate as PairEstimate
from interleaf.counterfactual.reuse_result import ReuseResult as ReuseResult

__all__ = ["Estimated", "Reused", "reuse"]
