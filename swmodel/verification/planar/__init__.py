"""Cases on the plane."""
