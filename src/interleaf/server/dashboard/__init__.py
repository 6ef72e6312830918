"""The dashboard: pages over the service.

routes.py           URLs, the role that each needs, and error pages
visit.py            a request to the dashboard; the session behind the cookie; pages from templates; charts
experiment_pages.py all experiments; one experiment, the part of it that is refreshed, and lists that users saw
result_summary.py   the scorecard, progress towards the planned size, and checks of the set-up (A/A, known loser)
form_pages.py       forms from the table of settings, and what they do: create, edit, start, stop, decide
access_pages.py     login, logout, access keys
downloads.py        the log, tables as CSV, and commands to copy
static_files.py     style, scripts, Vega
"""

from interleaf.environment import require

require("serve", "the dashboard needs", "jinja2")

from interleaf.server.dashboard.routes import routes as routes  # noqa: E402
