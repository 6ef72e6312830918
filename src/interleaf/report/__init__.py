"""Makes reports from tallies: numbers, health checks, a verdict, and all output formats.

build.py           builds a report from a tally, and runs the health checks
report.py          `Report`: the findings, with methods that show them, also as JSON and Arrow tables
model.py           the findings as plain data, with a reason where a number is missing
rule.py            how a report decides: anytime intervals or planned looks
weights.py         weights of users, and errors clustered by user and query
comparisons.py     every pair of rankers, and how it developed over time
outcomes.py        lists and people that favour each ranker; the clicks that each would get if it were live
arms.py            interleaved lists, holdout and A/B arms side by side; rankers of which each unit sees one list
guardrails.py      metrics of arms with a margin
choice.py          the best of many rankers, epoch by epoch; choice_result.py has the result as plain data
codes.py           codes of checks and notes; how a health check is declared
log_checks.py      checks of rows and events
list_checks.py     checks of lists and their clicks, and of fair scoring
traffic_checks.py  checks of arms, repeated rows, and times without events
effect_checks.py   checks that no period, bot or single query causes the effect
verdict.py         the verdict in a sentence
format.py          how numbers, times and names are written
sections.py        the parts of a page, as words and tables; which pairs and columns are shown
layout.py          the whole page
text.py html.py charts.py  one file per output format; text.py also writes Markdown
"""
