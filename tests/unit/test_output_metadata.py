"""Names and attributes that CF and SGRID give to what is in files, row by row of the variable table."""

import numpy as np
import pytest

from swmodel.fields.variables import OF_A_LAYER, UNDER_RIGID_LID, VARIABLES
from swmodel.grids.grid import CartesianGrid, SphericalGrid
from swmodel.output.metadata import grid_variables, reach_of_water, shape, topology, variable_attributes

PLANE, SPHERE = CartesianGrid(4, 3, (0.0, 4e4), (0.0, 3e4)), SphericalGrid(4, 3, (0.0, 8.0), (10.0, 16.0))


def test_velocities_have_cfs_names_for_their_directions_and_every_variable_says_where_it_lies():
    """On a plane x and y have no bearing (CF's standard names); on longitude and latitude x is east and y is north.

    In SGRID's words for the points of a C-grid eta lies on faces, u on the first kind of edges, v on the second.
    """
    words = {"u": ("x", "eastward"), "v": ("y", "northward")}
    along = {name: row.position for name, row in VARIABLES.items()} | {"velocity_x": "u", "velocity_y": "v"}
    for table in (VARIABLES, OF_A_LAYER, UNDER_RIGID_LID):
        for name, row in table.items():
            assert row.name == name and row.units and row.position in "huvq"
            for k, grid in enumerate((PLANE, SPHERE)):
                about = variable_attributes(row, grid)
                standard = set(about.get("standard_name", "").split("_"))
                text = {*about["long_name"].replace(",", "").split(), *standard}
                for position, directions in words.items():
                    assert (directions[k] in text) == (along.get(name, row.position) == position), (name, about)
                assert about["grid"] == "grid" and ("cell_measures" in about) == (row.position == "h")
                assert about["location"] == {"h": "face", "u": "edge1", "v": "edge2", "q": "node"}[row.position]
                if standard != {""} and row.position in "uv":
                    assert {"x", "y", "eastward", "northward"} & standard == {words[row.position][k]}


def test_no_two_velocities_at_one_position_share_a_standard_name():
    for grid in (PLANE, SPHERE):
        names = [(row.position, variable_attributes(row, grid).get("standard_name")) for row in VARIABLES.values()]
        velocities = [(position, name) for position, name in names if name and name.endswith("velocity")]
        assert len(velocities) == len(set(velocities)) >= 4


@pytest.mark.parametrize("periodic, rows, columns", (("", 4, 5), ("x", 4, 4), ("y", 3, 5), ("xy", 3, 4)))
def test_faces_of_a_direction_with_walls_are_one_more_than_its_cells(periodic, rows, columns):
    """SGRID's padding says so too: none where both ends have a face, low where the last face is the first one again."""
    grid = CartesianGrid(4, 3, (0.0, 4e4), (0.0, 3e4), periodic)
    sizes = {position: shape(grid, position) for position in "huvq"}
    assert sizes == {"h": (3, 4), "u": (3, columns), "v": (rows, 4), "q": (rows, columns)}
    found = {name: (values, attributes) for name, (_, attributes, values) in grid_variables(grid).items()}
    assert [found[name][0].size for name in ("xh", "xq", "yh", "yq")] == [4, columns, 3, rows]
    for axis, n in (("x", 4), ("y", 3)):
        centres, (faces, attributes) = found[f"{axis}h"][0], found[f"{axis}q"]
        shift = attributes["c_grid_axis_shift"]
        np.testing.assert_allclose(faces[:n], centres + shift * 1e4)  # where face 0 lies, seen from centre 0
        assert f"{axis}h: {axis}q (padding: {'low' if shift > 0 else 'none'})" in topology(grid)["face_dimensions"]


def test_faces_and_corners_that_touch_water_are_those_of_its_cells():
    wet = np.zeros((3, 4), bool)
    wet[0, 0] = wet[1, 3] = True
    np.testing.assert_array_equal(np.argwhere(reach_of_water(wet, PLANE, "u")), [[0, 0], [0, 1], [1, 3], [1, 4]])
    np.testing.assert_array_equal(np.argwhere(reach_of_water(wet, PLANE, "v")), [[0, 0], [1, 0], [1, 3], [2, 3]])
    around = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 3], [1, 4], [2, 3], [2, 4]]
    np.testing.assert_array_equal(np.argwhere(reach_of_water(wet, PLANE, "q")), around)
    channel = CartesianGrid(4, 3, (0.0, 4e4), (0.0, 3e4), "x")  # whose face 0 is the one between cells 0 and 1
    np.testing.assert_array_equal(np.argwhere(reach_of_water(wet, channel, "u")), [[0, 0], [0, 3], [1, 2], [1, 3]])
