"""Tallies a log on this machine or on Spark, with the same kernels and equal results."""
