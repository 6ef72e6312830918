"""Statistics of sums by bucket: numpy arrays in, small frozen records out.

    sums[bucket, pair], counts[bucket] ──▶ estimate, interval, p-value ──▶ many pairs, many looks, many rankers

A unit (a user or a session) is in one bucket, so buckets are independent, but impressions are not: all standard errors
are computed between buckets. A number that cannot be computed is None, and `reason` says why.

    compare.py        mean, jackknife error and t interval; the difference of two arms; tests of shares
    signs.py          other statistics in the literature: Delta, sign test, sign flips, z-score
    bootstrap.py      resampled buckets, shared by all pairs
    sequence.py       confidence sequences: intervals that are valid even if you check repeatedly
    looks.py          planned looks: O'Brien-Fleming; looks at any time: Lan-DeMets spending
    power.py          how many units are needed, which effect they can detect, and when a running experiment is decided
    multiplicity.py   many pairs: Holm, max-T
    ranking.py        many rankers: pairs, Condorcet, Copeland, cycles, Bradley-Terry strengths
    lift.py           clicks that each ranker's own list would get, and how often people look at a rank

Statistics of C12 over single observations, without buckets:

    consistency.py    how often a preference is right after a number of queries or days, by bootstrap samples;
                      whether two ways to compare rankers agree
"""
