"""Sums of scored impressions by bucket of users. Tallies of days, threads or machines can be added: `Tally + Tally`.

tally.py       Tally, and the sum of two
tally_file.py  a tally as a file
score_sums.py  sums of scores by bucket, wins and losses
units.py       hash tables: sums by unit, and impressions that were seen before
slices.py      sums over time and by segment
page_sums.py   clicks by arm, slots by owner, how visible each ranker was
exposure_sums.py  clicks that each ranker's own list would get
evidence.py    sums for health checks; draws.py has more of them
"""

from interleaf.tally.score_sums import About as About
from interleaf.tally.tally import Coded as Coded, Fact as Fact, Tally as Tally
