"""The whole flow from a log to an answer: `analyze` a log, `plan` an experiment."""
