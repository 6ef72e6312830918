"""The code of each health check: what a program goes by. A name may be reworded, and may name rankers; a code stays."""

from __future__ import annotations

import re

# What a name is or begins with, and the code.
CODES = {
    "Rows used": "rows_used",
    "Rows of another set of rankers": "rows_other_rankers",
    "Rows of another method": "rows_other_method",
    "Rows of another version": "rows_other_version",
    "Rows of another experiment of nearly the same name": "rows_other_experiment",
    "Rows excluded": "rows_excluded",
    "Repeated impressions": "repeated_impressions",
    "Repeated content": "repeated_content",
    "Tallies overlap": "tallies_overlap",
    "Events counted": "events_counted",
    "Events unmatched": "events_unmatched",
    "Events before its impression": "events_early",
    "Events past the window": "events_late",
    "Events repeated": "events_repeated",
    "Events of a kind that counts nowhere": "events_idle",
    "Events of no experiment": "events_unplaced",
    "Events over time": "events_over_time",
    "Units known": "units_known",
    "Units come back": "units_come_back",
    "Units that came once": "units_once",
    "Enough units": "enough_units",
    "Light users agree": "light_users_agree",
    "Fallbacks": "fallbacks",
    "Latency of ": "latency",
    "Units in one arm": "units_in_one_arm",
    "Interleaved against holdout, clicks per query": "holdout_clicks",
    "Interleaved against holdout, abandonment rate": "holdout_abandonment",
    "Holdout split": "holdout_split",
    "A/B split": "ab_split",
    "Lists composed": "lists_composed",
    "Fair lists": "fair_lists",
    "Fair lists by segment": "fair_segments",
    "Possible lists": "possible_lists",
    "Rankings differ": "rankings_differ",
    "Constraints met": "constraints_met",
    "Clicks by rank": "clicks_by_rank",
    "Clicks by ranker": "clicks_by_ranker",
    "Same effect over time": "effect_over_time",
    "Holds without any one query": "holds_without_query",
    "Unbiased scoring": "unbiased_scoring",
    "A/A: ": "aa",
}


def code_of(name: str) -> str:
    """The code of a check with this name.

    >>> code_of("Latency of production"), code_of("Fair lists by segment")
    ('latency', 'fair_segments')
    """
    known = [beginning for beginning in CODES if name == beginning or name.startswith(beginning + " ")]
    known += [beginning for beginning in CODES if beginning.endswith(" ") and name.startswith(beginning)]
    return CODES[max(known, key=len)] if known else re.sub(r"\W+", "_", name.lower()).strip("_")
