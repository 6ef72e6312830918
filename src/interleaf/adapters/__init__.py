"""Foreign formats at the door: one file each."""
