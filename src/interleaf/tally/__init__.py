"""Sums of scored impressions by bucket of users. Tallies of days, threads or machines can be added: `Tally + Tally`.

tally.py          Tally, and the sum of two
tally_file.py     a tally as a file
bucket_sums.py    sums by bucket: scores, wins and losses; clicks by arm, slots by owner, how visible each ranker was
units.py          hash tables: sums by unit, and impressions that were seen before
slices.py         sums over time and by segment
exposure_sums.py  clicks that each ranker's own list would get
choice_sums.py    sums of an experiment that chooses the best of many rankers
evidence.py       sums for health checks
"""

from interleaf.tally.bucket_sums import About as About
from interleaf.tally.tally import Coded as Coded, Fact as Fact, Tally as Tally
