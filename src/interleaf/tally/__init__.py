"""Sums of scored impressions by user bucket that can be merged: `Tally + Tally`, over days, threads and machines.

tally.py       Tally, and the sum of two
tally_file.py  a tally as a file
score_sums.py  sums of scores by bucket, wins and losses
units.py       hash tables: sums by unit, and which impressions came before
slices.py      sums over time and by segment
page_sums.py   clicks by arm, slots by owner, how visible each ranker was
evidence.py    sums that health checks need, with draws.py
"""

from interleaf.tally.score_sums import About as About
from interleaf.tally.tally import Coded as Coded
from interleaf.tally.tally import Fact as Fact
from interleaf.tally.tally import Tally as Tally
