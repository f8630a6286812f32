"""Slip models of the USGS in GeoJSON: a polygon of four corners for each subfault, with its slip and times.

Corners have longitude, latitude [degrees] and depth, in m, or in km where none exceeds 700. Strike, dip, length and
width follow from them: the upper edge joins the two shallowest corners. Properties are slip [m], rake [degrees], trup,
rise and t_fal or fall [s] and the moment sf_moment or moment [N m].
"""

import json

import numpy as np

from swmodel.errors import DataError
from swmodel.sources.fault import AzimuthalEqualArea
from swmodel.sources.formats.columns import SlipModel, rigidity_of

WORDS = "a slip model of the USGS in GeoJSON"
DEEPEST = 700.0  # [km] of earthquakes: greater depths are in metres


def read_geojson(path: str) -> SlipModel:
    """The SlipModel of a GeoJSON file; raises DataError for text that is cut off, other shapes, or without slip."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            features = json.load(file)["features"]
        corners = np.array([feature["geometry"]["coordinates"][0][:4] for feature in features], float)
        rows = [{key.lower(): value for key, value in feature["properties"].items()} for feature in features]
        if corners.ndim != 3 or corners.shape[1:] != (4, 3):
            raise ValueError("polygons need four corners, each with longitude, latitude and depth")
        slip, rake = (np.array([row[name] for row in rows], float) for name in ("slip", "rake"))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is {WORDS} that cannot be read ({type(error).__name__}: {error}); it is cut off, or lacks slip or "
            "rake: copy it again."
        ) from None
    in_km = np.abs(corners[..., 2]).max() <= DEEPEST
    corners[..., 2] = np.abs(corners[..., 2]) * (1e3 if in_km else 1.0)
    columns = _rectangles(corners) | {"slip": slip, "rake": rake}
    optional = {
        "onset": ("trup",),
        "rise": ("rise", "t_ris"),
        "fall": ("t_fal", "fall"),
        "moment": ("sf_moment", "moment"),
    }
    values = {name: _property(rows, names) for name, names in optional.items()}
    columns["rigidity"] = rigidity_of(values["moment"], slip, columns["length"], columns["width"])
    columns |= {"onset": values["onset"], "rise_time": values["rise"] + values["fall"]}
    return SlipModel(
        columns,
        "centroid",
        f"{path} was read as {WORDS}: depth in {'km' if in_km else 'm'}, slip in m, times in s, moments in N m, "
        "strike, dip and sizes from the corners.",
    )


def _property(rows, names):
    name = next((name for name in names if name in rows[0]), None)
    return np.array([float(row.get(name) or 0.0) for row in rows])


def _rectangles(corners):
    """Centre, strike, dip, length and width of rectangles with corners (n, 4, 3), in any order round them."""
    longitude, latitude = corners[..., 0].mean(1), corners[..., 1].mean(1)
    east, north = AzimuthalEqualArea().local(corners[..., 0], corners[..., 1], (longitude[:, None], latitude[:, None]))
    points = np.stack([east, north, -corners[..., 2]], axis=-1)
    order = np.argsort(corners[..., 2], axis=1, kind="stable")
    upper, lower = (np.take_along_axis(points, part[..., None], axis=1) for part in (order[:, :2], order[:, 2:]))
    along, down = upper[:, 1] - upper[:, 0], lower.mean(1) - upper.mean(1)
    strike = np.rad2deg(np.arctan2(along[:, 0], along[:, 1]))
    to_right = down[:, 0] * np.cos(np.deg2rad(strike)) - down[:, 1] * np.sin(np.deg2rad(strike))
    strike = np.where(to_right < 0, strike + 180.0, strike) % 360.0
    dip = np.rad2deg(np.arctan2(-down[:, 2], np.hypot(down[:, 0], down[:, 1])))
    return {
        "longitude": longitude,
        "latitude": latitude,
        "depth": corners[..., 2].mean(1),
        "strike": strike,
        "dip": dip,
        "length": np.hypot(along[:, 0], along[:, 1]),
        "width": np.sqrt((down**2).sum(1)),
    }
