"""`analyze` makes a report from a log, and `plan` says how many users an experiment needs."""
