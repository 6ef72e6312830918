"""A tally to a report: numbers, health, and a verdict that says no more than they do.

record.py   the findings, as plain data with reasons
report.py   findings that show themselves
build.py    a tally to a report
compare.py  every pair of rankers
arms.py     interleaved lists, holdout and A/B buckets beside each other
health.py   checks that a sound experiment passes
bias.py     which methods may score which lists
verdict.py  the answer in a sentence
"""
