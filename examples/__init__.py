"""Complete small programs with interleaf; each module says how to run it."""
