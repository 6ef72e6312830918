"""What compiled kernels share: randomness, compilation, sorting, records of arrays, and the hash of a unit."""
