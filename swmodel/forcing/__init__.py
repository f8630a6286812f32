"""What drives the flow from outside: tides at open sides, and forces of the moon, the sun and the atmosphere."""
