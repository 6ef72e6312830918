"""Comparison methods: each is one file with kernels and one row of `registry.METHODS`."""
