"""External forcing: tides at open sides, and forces of the moon, the sun and the atmosphere."""
