"""From sums by bucket to numbers: one file a question, numpy arrays in, small frozen records out.

    sums[bucket, pair], counts[bucket] ──▶ estimate, interval, p-value ──▶ many pairs, many looks, one standing

A unit (a person, a session) is in one bucket, so buckets are independent and impressions are not: every error here is
one between buckets. What cannot be computed is None, and `reason` says why.

    sums.py           what all share: figures with reasons, checked columns, Student's t as a normal deviate
    compare.py        by how much: mean, jackknife error, t interval; two arms against each other
    signs.py          what the literature reports beside it: Delta, sign test, sign flips, z-score
    bootstrap.py      resampled buckets, shared by all pairs
    sequence.py       for a page that people watch: intervals that hold at every look
    looks.py          for planned looks: O'Brien-Fleming; for free times: Lan-DeMets spending
    power.py          how many units, and what so many can show
    multiplicity.py   many pairs: Holm, max-T
    ranking.py        many rankers: who beats whom, Condorcet, Copeland, cycles, Bradley-Terry strengths
    shares.py         whether a share is what it should be

Over single observations, after C12, without buckets:

    consistency.py    how sure a preference is after so many queries or days, by bootstrap samples
    agreement.py      whether two ways to compare rankers agree
"""
