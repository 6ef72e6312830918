"""Code that all compiled kernels use: randomness, compilation, sorting, argument types, and the hash of a unit."""
