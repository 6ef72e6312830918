"""The heart: one file per comparison method, one row in `table.METHODS`."""
