"""The dashboard: pages over the service, for people.

routes.py      addresses, who may open them, and refusals as pages
session.py     the session behind the cookie, and the tokens of forms
pages.py       templates, escaped, under a strict content policy
listing.py     all experiments
experiment.py  one experiment: its page, and the part of it that keeps up with the traffic
scores.py      the scorecard over metrics, and where they disagree
trials.py      what A/A, known loser and holdout should show
examples.py    lists that people saw
drawings.py    charts as specifications, made at most every few seconds
forms.py       forms from the table of settings
changes.py     what forms do: create, edit, start, stop, decide
keys.py        keys
login.py       in and out
outlook.py     days left, what to do when the plan is reached, a winner that is early
downloads.py   the log, and the tables as CSV
files.py       style, scripts, vega; chart_script.py: vega on disk
"""

from interleaf.serve.dashboard.routes import routes as routes
