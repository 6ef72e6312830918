"""Metrics of a single ranker: from the behaviour of users, and from relevance judgments."""
