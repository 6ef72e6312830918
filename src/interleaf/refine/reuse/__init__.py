"""Old impressions for new rankers: from a log, and rankings that it never showed, how the new rankers compare.

old.py       the log, and how likely its lists were
borrowed.py  rankings of its own rankers
survey.py    its queries and methods
rankings.py  new rankings, from wherever they come
held.py      old lists as the new rankers see them
looks.py     how they were looked at
chances.py   list probabilities of many impressions
outcomes.py  what an old list and its clicks say of new rankers
sums.py      weighted outcomes by bucket of units
support.py   what lists that the log could not show may add
model.py     a click model of the log
prior.py     what it takes hardly shown documents for
foresee.py   what it expects of lists
robust.py    the doubly robust estimate, and its jackknife
weigh.py     all sums in one pass
report.py    estimates, warnings, and the plan of a live experiment
record.py    the result, as data, text and Markdown
estimate.py  `reuse`: the whole way
"""

from interleaf.refine.reuse.estimate import reuse as reuse
from interleaf.refine.reuse.record import Estimated as Estimated
from interleaf.refine.reuse.record import Reused as Reused

__all__ = ["Estimated", "Reused", "reuse"]
