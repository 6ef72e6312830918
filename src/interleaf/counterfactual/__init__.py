"""Old impressions for new rankers: from a log, and rankings that it never showed, how the new rankers compare.

old_log.py      the log: its queries and methods, its rankers' rankings, its impressions
rankings.py     new rankings, from wherever they come
lists.py        old lists as the new rankers see them, and how they were examined
outcomes.py     list probabilities, and what an old list and its clicks say of new rankers
sums.py         weighted outcomes by bucket of units in one pass, and what lists that the log could not show may add
click_model.py  a click model of the log, and what it expects of lists
robust.py       the doubly robust estimate and its jackknife
report.py       estimates, warnings, and the plan of a live experiment
record.py       the result, as data, text and Markdown
estimate.py     `reuse`: from log and rankings to the result
history.py      the same estimators for impressions that are in memory
"""

from interleaf.counterfactual.estimate import reuse as reuse
from interleaf.counterfactual.record import Estimated as Estimated
from interleaf.counterfactual.record import Reused as Reused

__all__ = ["Estimated", "Reused", "reuse"]
