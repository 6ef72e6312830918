"""People, simulated or you, in front of rankers."""
