"""Summaries of texts of any length, by one call where they fit and by map and reduce where not."""
