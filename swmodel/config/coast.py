"""Wetting and drying in experiment files, maps of friction, and the mistakes of both.

[model]
momentum = "momentum_conserving"
wetting = {thin = "1 mm"}

[[dissipation]]
type = "manning_drag"
roughness = {file = "land_use.nc", variable = "n"}
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Discriminator, Tag

from .mistakes import Mistake
from .sections import InputFile, Section

__all__ = ["MapFile", "coast_mistakes", "number_or_map"]


class MapFile(Section):
    """A map from a netCDF file, interpolated to cell centres; missing values take the nearest one."""

    tag: ClassVar[str] = "map"

    file: InputFile  # netCDF file on the axes of the grid
    variable: str  # its name in the file


def number_or_map(plain: Any) -> Any:
    """The annotation of a key that is `plain`, or a table that names a file."""
    choose = Discriminator(lambda value: MapFile.tag if isinstance(value, (dict, MapFile)) else "plain")
    return Annotated[Annotated[plain, Tag("plain")] | Annotated[MapFile, Tag(MapFile.tag)], choose]


def coast_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of an experiment with wetting, and of one whose other sections need it."""
    model, bathymetry = sections.get("model"), sections.get("bathymetry")
    if model is None:
        return
    if model.wetting is None:
        if bathymetry is not None and bathymetry.levees is not None:
            yield Mistake(
                ("bathymetry", "levees"),
                "water flows over levees only with model.wetting; give that, or leave this out",
            )
        return
    if model.momentum != "momentum_conserving":
        yield Mistake(
            ("model", "wetting"),
            f"wetting needs momentum = 'momentum_conserving', and momentum is {model.momentum!r}; change it",
        )
    for name in ("minimum_depth", "fill_lakes", "sound_speed"):
        if bathymetry is not None and name in bathymetry.model_fields_set:
            yield Mistake(("bathymetry", name), "wetting keeps the topography as it is; leave this out")
    for k, tracer in enumerate(sections.get("tracer", ())):
        if tracer.scheme == "centred":
            yield Mistake(
                ("tracer", k, "scheme"),
                "takes more from a cell that falls dry than it holds; write 'flux_limited', or leave wetting out",
            )
    for k, entry in enumerate(sections.get("dissipation", ())):
        if entry.type == "manning_drag" and entry.roughness == 0.0:
            yield Mistake(("dissipation", k, "roughness"), "is 0 on land; give a roughness, or leave the drag out")
