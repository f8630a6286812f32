"""The form of the Coriolis force, chosen apart from that of rotational advection."""

import numpy as np
import pytest

import swmodel as sw

from .cases import FORMS, by_engine, plane, random_state, rough, tendency
from .test_conservation import relative_rate

ENERGY, ENSTROPHY, BOTH = FORMS
GRID = plane()
OPTIONS = dict(coriolis=sw.BetaPlane(1e-4, 1e-9))


def sea(momentum, form, **options):
    return sw.ShallowWater(GRID, rough(GRID), momentum=momentum, coriolis_form=form, **OPTIONS, **options)


@pytest.mark.parametrize("momentum, form", [(ENERGY, BOTH), (BOTH, ENERGY)], ids=("energy-both", "both-energy"))
def test_two_forms_that_keep_energy_keep_it_together(momentum, form):
    model = sea(momentum, form)
    assert relative_rate(model, random_state(model), "energy") < 1e-12


def test_a_form_of_the_coriolis_force_that_does_not_keep_energy_shows():
    model = sea(ENERGY, ENSTROPHY)
    assert relative_rate(model, random_state(model), "energy") > 1e-8


@pytest.mark.parametrize("momentum, form", [(ENERGY, ENSTROPHY), (ENSTROPHY, BOTH)], ids=("energy", "enstrophy"))
def test_the_tendency_is_the_advection_of_one_and_the_coriolis_force_of_the_other(momentum, form):
    """Whose difference from one form for both is the same with advection and, as u is small, without."""
    state = random_state(sea(momentum, None))
    small = state.map(lambda x: 1e-6 * x)
    mixed, one, other = (tendency(sea(*forms), small) for forms in ((momentum, form), (momentum, None), (form, None)))
    linear = tendency(sea(momentum, form, linear=True), small)
    for name in ("u", "v"):
        of = lambda x: np.asarray(getattr(x, name))  # noqa: B023, E731
        size = np.abs(of(other)).max()
        np.testing.assert_allclose(of(mixed), of(other), rtol=0, atol=1e-4 * size)
        np.testing.assert_allclose(of(linear), of(other), rtol=0, atol=1e-4 * size)
        assert np.abs(of(one) - of(other)).max() > 1e-3 * size


def test_each_form_gives_its_part_alone():
    """The flux is linear in q = (f + zeta) / h, so that the two ways to mix two forms add up to the two forms."""
    state = random_state(sea(ENERGY, None))
    of = {(m, f): tendency(sea(m, f), state) for m in (ENERGY, ENSTROPHY) for f in (ENERGY, ENSTROPHY)}
    for name in ("u", "v", "eta"):
        rates = {forms: np.asarray(getattr(found, name)) for forms, found in of.items()}
        mixed, pure = (rates[ENERGY, b] + rates[ENSTROPHY, a] for a, b in ((ENERGY, ENSTROPHY), (ENSTROPHY, ENERGY)))
        np.testing.assert_allclose(mixed, pure, rtol=0, atol=1e-12 * np.abs(pure).max())
        assert (
            name == "eta" or np.abs(rates[ENERGY, ENSTROPHY] - rates[ENERGY, ENERGY]).max() > 1e-6 * np.abs(pure).max()
        )


def test_the_same_form_twice_is_one_form():
    assert sea(BOTH, sw.ArakawaLamb()).coriolis_form is None


def test_loops_and_arrays_agree():
    start = random_state(sea(ENERGY, ENSTROPHY))
    models = (sea(ENERGY, ENSTROPHY, engine=engine) for engine in ("fused", "arrays"))
    fused, arrays = (by_engine(model, sw.AB2(30.0), start, 3) for model in models)
    for name in ("u", "v", "eta"):
        np.testing.assert_allclose(getattr(fused, name), getattr(arrays, name), rtol=0, atol=1e-13)


def test_the_pseudo_spectral_core_has_a_form_of_its_own():
    with pytest.raises(ValueError, match="its own form of the Coriolis force; leave coriolis_form out"):
        sw.ShallowWater(plane(), 100.0, coriolis=sw.FPlane(1e-4), coriolis_form=BOTH, core=sw.PseudoSpectral())
