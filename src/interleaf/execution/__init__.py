"""Where the flow from log to tally runs: on this machine or on Spark, with the same kernels and equal tallies."""
