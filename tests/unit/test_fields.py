"""Fields refuse what makes no sense on a C-grid, and the table of variables is complete."""

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.fields import field as operators
from swmodel.fields.field import WHOLE, Field, FieldError, HaloError
from swmodel.fields.variables import VARIABLES, named_for


def field(position="h", halo=(2, 2, 2, 2), rows=8, columns=9):
    return Field(jnp.arange(rows * columns, dtype=float).reshape(rows, columns), position, halo)


@pytest.mark.parametrize("operation", ("__add__", "__sub__", "__mul__", "__truediv__"))
def test_fields_of_different_positions_do_not_meet(operation):
    with pytest.raises(FieldError, match="at 'h' cannot be combined with one at 'u'; move one of them"):
        getattr(field("h"), operation)(field("u"))


def test_arithmetic_crops_to_the_halo_that_both_have():
    wide, narrow = field(halo=(2, 2, 2, 2)), field(halo=(1, 2, 0, 1), rows=5, columns=8)
    total = wide + narrow
    assert total.halo == (1, 2, 0, 1)
    np.testing.assert_array_equal(total.data, wide.data[2:-1, 1:] + narrow.data)


def test_numbers_act_on_either_side():
    f = field()
    np.testing.assert_array_equal((2.0 - f).data, 2.0 - f.data)
    np.testing.assert_array_equal((f - 2.0).data, f.data - 2.0)
    np.testing.assert_array_equal((1.0 / (f + 1.0)).data, 1.0 / (f.data + 1.0))
    np.testing.assert_array_equal((3.0 * f).data, (f * 3.0).data)
    np.testing.assert_array_equal((-f).data, -f.data)


def test_the_size_of_a_field_is_that_of_its_values():
    field = Field(-jnp.ones((3, 3)), "h", (0, 0, 0, 0))
    np.testing.assert_array_equal(abs(field).data, 1.0)


def test_a_column_has_no_end_along_x():
    column = Field(jnp.arange(8.0)[:, None], "h", (WHOLE, WHOLE, 2, 2))
    total = field(halo=(1, 3, 2, 1), rows=7) * column
    assert total.halo == (1, 3, 2, 1)
    np.testing.assert_array_equal(total.data, field(rows=7).data * np.arange(7.0)[:, None])


def test_halo_cannot_be_made_from_nothing():
    with pytest.raises(HaloError, match="cannot have halo"):
        field(halo=(1, 1, 1, 1)).crop((2, 1, 1, 1))


def test_a_stencil_beyond_the_halo_is_an_error_when_the_interior_is_asked_for():
    with pytest.raises(HaloError, match="reached 1 beyond the halo"):
        _ = field(halo=(1, 1, -1, 0)).interior


def test_a_stencil_needs_two_cells_along_its_axis():
    thin = field(rows=2, columns=2, halo=(1, 0, 0, 1))
    np.testing.assert_array_equal(operators.mean_x(thin).data, [[0.5], [2.5]])
    with pytest.raises(HaloError, match="beyond all cells of a thin tile"):
        operators.mean_x(operators.mean_x(thin))


def test_a_free_surface_of_the_sea_has_the_names_of_the_table():
    assert named_for(9.81) == named_for(None) == {} and sw.RigidLid.rows["eta"] != VARIABLES["eta"]
    assert "eta" in named_for(0.02)
