"""The land mask in a file of depths, as ocean models write it.

Such files have depths on land, too, since models extend the sea floor under it; only the mask separates land from sea.
A mask is a variable on the axes of the depths, of which the first level and time count. It is identified by its CF
attributes, else by its name in the usual models: ROMS, MOM, NEMO, MITgcm and POP.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

OF_SEA = ("sea_binary_mask", "sea_area_fraction", "model_level_number_at_sea_floor")  # standard names
OF_LAND = ("land_binary_mask", "land_area_fraction")
NAMES_OF_SEA = ("mask_rho", "wet", "tmask", "tmaskutil", "maskc", "kmt", "mbathy")  # 1, or the number of levels, in sea
UNKNOWN = ("mask", "land_mask", "landmask", "lsm", "land_sea_mask")  # names of masks that are 1 in land, or in sea
SEA, LAND = {"water", "sea", "ocean", "wet"}, {"land", "dry"}  # in the meanings of flags


@dataclasses.dataclass(frozen=True)
class LandMask:
    """A variable that is 1/2 or more in what it is `of`, "sea" or "land"; of "unknown" ones only the name is used."""

    name: str
    of: str

    def is_water(self, values: np.ndarray) -> np.ndarray:
        """Where the values of the variable mean water; land where they are missing."""
        values = np.asarray(values, float)
        return values < 0.5 if self.of == "land" else values >= 0.5

    def remark(self, where: str) -> str:
        """A sentence on the mask in the file `where`."""
        if self.of == "unknown":
            return (
                f"{where} has a variable {self.name}, of which it does not say whether it is 1 in land or in sea, and "
                "which is not used; give it the standard_name sea_binary_mask or land_binary_mask."
            )
        return f"{where} has a land mask, {self.name}: depths on its land are not used."


def land_mask_of(dataset: Any, name: str) -> LandMask | None:
    """The LandMask on the axes of variable `name` of a Dataset or StoredDataset; None if the file has none."""
    kinds = {
        other: kind
        for other, variable in dataset.data_vars.items()
        if other != name
        and set(variable.dims[-2:]) == set(dataset[name].dims[-2:])
        and (kind := _kind(other, variable.attrs)) is not None
    }
    sure = [LandMask(other, kind) for other, kind in kinds.items() if kind != "unknown"]
    return next(iter([*sure, *map(LandMask, kinds, kinds.values())]), None)


def is_land_mask(name: str, attrs: Mapping) -> bool:
    """Whether a variable with this name and these attributes is a land mask."""
    return _kind(name, attrs) is not None


def _kind(name, attrs):
    """What a mask is 1 in, "sea", "land" or "unknown"; None for another variable."""
    standard, lower = attrs.get("standard_name"), str(name).lower()
    meanings = [set(flag.lower().split("_")) for flag in str(attrs.get("flag_meanings", "")).split()]
    flags = np.atleast_1d(attrs.get("flag_values", ())).tolist()
    if standard in OF_SEA or lower in NAMES_OF_SEA:
        return "sea"
    if len(meanings) == 2 and flags in ([0, 1], [1, 0]):
        one = meanings[flags.index(1)], meanings[flags.index(0)]
        if one[0] & SEA and one[1] & LAND:
            return "sea"
        return "land" if one[0] & LAND and one[1] & SEA else None
    if standard in OF_LAND:
        return "land"
    return "unknown" if lower in UNKNOWN else None
