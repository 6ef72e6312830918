"""Experiments, impressions and events, stored in SQLite or in PostgreSQL.

records.py          what a store holds: experiments, impressions, events with their fates, keys
sql.py              the whole store in SQL, over any database; opens a store by its address
database.py         what the SQL needs of a database; sqlite.py, postgres.py
sql_tables.py       tables, and the migrations that made them
experiments.py      drafts, versions, states, search; what was last noted of a running experiment
history.py          what was done with an experiment, when, by whom and why; webhooks that wait for delivery
impression_rows.py  writes impressions and events
attribution.py      to which impressions an event belongs; impressions of a user
codec.py            the stored form of a row; rows as record batches
epoch_plans.py      plans of epochs, where the best of many rankers is chosen
fold.py             closed impressions become sums; a tally is the sums and the open impressions
keys.py             access keys, the secret that signs tokens, sessions of the dashboard
privacy.py          how user ids and query texts are stored; deletes rows by age, of a user, or of an experiment
time_check.py       the time by which rows are folded and deleted
"""

from interleaf.store.sql import open_store as open_store
