"""One impression: rankings are checked, mixed into one list, and credited with clicks; many impressions in a batch."""
