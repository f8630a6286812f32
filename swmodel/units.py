"""SI values of the units that people write: `300 * km`, `3 * year`."""

import re

minute = 60.0  # [s]
hour = 3600.0
day = 86400.0
year = 365.25 * day
km = 1000.0  # [m]
degree = 0.017453292519943295  # [rad]
Sv = 1.0e6  # [m3 s-1]

_NAMES = ("minute", "hour", "day", "year", "km", "degree", "Sv")


def as_product(value: object) -> str:
    """Text on how to write a quantity such as "3 days" in Python: ", as 3 * sw.units.day"; "" for any other value."""
    match = re.fullmatch(r"\s*([+-]?[\d.]+(?:e[+-]?\d+)?)\s*([a-zA-Z]+?)s?\s*", value if isinstance(value, str) else "")
    names = [name for name in _NAMES if match is not None and name.startswith(match[2]) and match[2] != "m"]
    return f", as {match[1]} * sw.units.{names[0]}" if match is not None and names else ""
