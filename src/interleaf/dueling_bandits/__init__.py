"""Dueling bandits: which rankers to compare next, so that people see few lists of rankers that lose.

Each algorithm is a pure function of the wins so far and of random draws. `algorithms.py` lists them all, `thompson.py`
has those that need nothing but the wins, `merge_dts.py` has the one with batches of rankers, and `estimates.py` what
they share.
"""
