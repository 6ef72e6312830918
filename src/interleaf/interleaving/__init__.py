"""Checks rankings, mixes them into one list, and credits clicks to rankers; for one impression, or many in a batch."""
