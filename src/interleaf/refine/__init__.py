"""What makes a score better, or makes one where there was none: old impressions for new rankers."""
