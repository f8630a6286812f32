"""Units of variables in files, compared in any of their spellings."""

import re

from ..errors import DataError

__all__ = ["OTHER_LENGTHS", "check_units", "normalised_units"]

OTHER_LENGTHS = re.compile(
    r"\b(?:km|cm|dm|mm|1e3 m|ft|feet|foot|fathoms?|yards?|inch(?:es)?|(?:kilo|centi|deci|milli)met(?:re|er)s?)\b"
)
SYMBOL = r"(/?)\s*([A-Za-z%]+)\s*(?:\*\*|\^)?\s*([+-]?\d+)?"  # of units, with its exponent
METRES = {"m": "", "cm": "centi", "mm": "milli", "km": "kilo"}
SYMBOLS = {
    **{f"{prefix}{metre}": unit for unit, prefix in METRES.items() for metre in ("metre", "metres", "meter", "meters")},
    **dict.fromkeys(("second", "seconds", "sec"), "s"),
    **dict.fromkeys(("pascal", "pascals"), "Pa"),
    **dict.fromkeys(("newton", "newtons"), "N"),
    **dict.fromkeys(("degree", "degrees", "deg"), "degree"),
    **dict.fromkeys(("knot", "knots", "kt", "kts"), "knot"),
    **dict.fromkeys(("millibar", "millibars", "mbar", "mb", "hectopascal", "hectopascals"), "hPa"),
}


def check_units(who: str, given_units: str, units: str) -> None:
    """Raise DataError unless the units `given_units` of `who`, in a file, are the needed `units`, in any spelling."""
    if normalised_units(given_units) != normalised_units(units):
        raise DataError(f"{who} is in {given_units!r}, and must be in {units!r}; convert its values and its units.")


def normalised_units(units: str) -> tuple[tuple[str, int], ...]:
    """Units as a sorted tuple of (symbol, exponent): those of "m/s", "m s-1" and "metre second**-1" are the same.

    A factor other than 1, as in "0.01 m", is one more symbol.
    """
    powers: dict[str, int] = {}
    units = re.sub(r"_(east|north|e|n)$", "", units.strip().lower()) if "degree" in units.lower() else units
    factor = re.sub(r"[\s*.()]", "", re.sub(SYMBOL, "", units))
    powers |= {} if factor in ("", "1") else {factor: 1}
    for slash, symbol, power in re.findall(SYMBOL, units):
        unit = str(SYMBOLS.get(symbol.lower(), symbol))
        powers[unit] = powers.get(unit, 0) + int(power or 1) * (-1 if slash else 1)
    return tuple(sorted((symbol, power) for symbol, power in powers.items() if power))
