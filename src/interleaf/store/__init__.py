"""Experiments, impressions, events: one contract, kept in SQLite or in PostgreSQL.

contract.py      what every store promises
opening.py       opened: a store by its address
sql.py           the store in SQL, over any database
files.py         files that only their owner can read
database.py      what a database is to it; sqlite.py, postgres.py
watching.py      whether a PostgreSQL answers; causes.py: why it does not
unit_secrets.py  the secret that units are hashed with; query_storage.py: whether query texts are stored
time_check.py    the time that rows are folded and deleted by
tables.py        tables, and the steps that made them
experiments.py   drafts, versions, states, history; deleted_experiments.py: the end of one, with its rows
experiment_search.py  which experiments have the words of a search
writing.py       impressions and events go in
attribution.py   to which impressions an event belongs; reasons.py: why to none
encoding.py      the stored form of a row
batches.py       kept rows as record batches; exporting.py: all of a version
folding.py       closed impressions become sums.py; a tally is those and the open ones
tasks.py         how an experiment is scored and reported
access.py        keys, and the secret that signs tokens; sessions.py: sessions of the dashboard
"""

from interleaf.store.opening import opened as opened
