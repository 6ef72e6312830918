"""Where the flow from log to tally runs; every engine calls the same kernels and gives the same tallies."""
