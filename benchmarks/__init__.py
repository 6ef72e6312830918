"""Speed, as calls a second and as ratios measured in one run: `make bench`."""
