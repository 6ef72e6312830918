"""Mergeable sums of scored impressions, by user bucket: `Tally + Tally`, across chunks, days, threads and machines.

scores.py   sums of scores by bucket, wins and losses
units.py    units one by one, while they are few
slices.py   sums over time
cells.py    one number for a unit and a part of the log: a slice, a segment, a query
pages.py    clicks by arm, slots by owner, how visible each ranker was
seen.py     which impressions came before
evidence.py what health checks need and no estimate does, from draws.py and timeline.py
stored.py   a tally as a file
"""

from interleaf.tally.about import About as About
from interleaf.tally.tally import ALONE as ALONE
from interleaf.tally.tally import Coded as Coded
from interleaf.tally.tally import Tally as Tally
