"""Cases on the whole sphere."""
