"""Isotropic spectra of energy and enstrophy, their transfers and fluxes, by the distributed transform.

    kinetic energy      E = mean(h_u u^2 + h_v v^2) / (2 H)      of a unit of mass [m2 s-2]; H is the mean depth
    potential energy    A = mean(g eta^2) / (2 H)                likewise [m2 s-2]
    enstrophy           Z = mean(zeta^2) / 2                     [s-2]

Each is a mean of products a b, with (a, b) = (u, U = h_u u), (eta, eta) or (zeta, zeta). By Parseval's theorem it is a
sum of Re(a_k* b_k) over modes. So the kinetic energy, which is cubic, has a spectrum whose sum is the energy that the
discrete equations conserve: the co-spectrum of u and h u (Augier, Mohanan & Lindborg 2019, doi:10.1017/jfm.2019.375).
Modes are summed over rings |k| = n dk -+ dk / 2 and divided by dk, so that sum E(k) dk = E:

    dE(k)/dt = sum over tendencies of T(k),      T(k) = Re(a_k'* b_k + a_k* b_k') / 2,

a' and b' are the changes of a and b by one part of the tendency (advection, pressure, ...). They are computed by
jax.jvp of the model's own operators, so that the budget closes to rounding. For kinetic energy the change of thickness
is part of advection; for potential energy it is the work of pressure. So the transfers of both energies by pressure sum
to zero together. Those by advection, and those by the Coriolis force, each sum to zero if the momentum scheme conserves
energy.

Fields are transformed at their own C-grid points. A shift of u and v by half a cell to centres would change the phases
of a and b alike, and cancels; means would damp the shortest waves. Between walls u, v, eta and zeta are series of the
sines or cosines that satisfy their boundary conditions; vorticity on the walls themselves is left out. The flux by
advection from wavenumbers below k to those above is Pi(k) = - sum of T(k') dk over k' <= k.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..dynamics.clock import Time
from ..dynamics.cores import named_after
from ..dynamics.domain import Model
from ..dynamics.series import Series
from ..dynamics.system import System
from ..errors import ConfigError
from ..fields.parameters import Flag, Part, check_arguments
from ..fields.state import State, pytree, replace
from ..parallel import fft
from ..runtime import memory
from ..runtime.compilation import jit
from ..stepping.explicit import SSPRK3
from ..stepping.loop import on_each_tile
from .derived import total

# quantity: (its pairs (a, b), units of its mean, long name)
QUANTITIES = {
    "kinetic_energy": ((("u", "U"), ("v", "V")), "m2 s-2", "kinetic energy of a unit of mass"),
    "potential_energy": ((("eta", "eta"),), "m2 s-2", "potential energy of a unit of mass"),
    "enstrophy": ((("zeta", "zeta"),), "s-2", "enstrophy"),
}
POSITIONS = {"u": "u", "U": "u", "v": "v", "V": "v", "eta": "h", "zeta": "q"}
PER_METRE = {"m2 s-2": "m3 s-2", "s-2": "m s-2"}


@pytree
class Rings:
    """The ring of each mode that a rank holds, by C-grid position: whole numbers, of a plan's mode_shape."""

    number: dict


MODEL = Part(("dynamics", "at_rest"), "ShallowWater(grid, depth)")


class Spectra:
    """Spectra, and their budgets, of the states of a model: doubly periodic, in a channel or between four walls.

    Args:
        model: a ShallowWater or an Ensemble on a CartesianGrid, all sea.
        transfers: whether to compute transfers and fluxes too.
        rigid_lid: whether the surface is a rigid lid: eta is the pressure on it, there is no potential energy, and
            the thickness is the depth.

    Attributes:
        wavenumber: of the rings' middles, n dk, 0 is the mean [rad m-1] (rings,).
        bounds: of the rings (rings, 2); the first one after the mean takes all waves that are longer.
        width: dk [rad m-1].
        largest: the largest wavenumber of complete rings [rad m-1]; beyond it they hold corners of the square of modes.
        names: of the results.
        rings: the Rings, which compiled programs take.

    Raises:
        ConfigError: on the sphere, with open sides or with land.
    """

    def __init__(self, model: Any, transfers: bool = True, rigid_lid: bool = False):
        check_arguments("Spectra", {"model": MODEL, "transfers": Flag()}, locals())
        check_model(model)
        if transfers and model.momentum.conserves_momentum:
            raise ConfigError(
                f"Spectra: {type(model.momentum).__name__} has no tendency that could be split into transfers; give "
                "transfers=False."
            )
        self.model, self.transfers, self.rigid_lid = model, transfers, rigid_lid
        self.quantities = [name for name in QUANTITIES if not (rigid_lid and name == "potential_energy")]
        grid, communicator = model.grid, model.communicator
        sides = tuple(float(edges[-1] - edges[0]) for edges in (grid.y_edges, grid.x_edges))
        self.repeats = tuple(L if axis in grid.periodic else 2 * L for L, axis in zip(sides, "yx"))
        self.width = 2 * np.pi / min(self.repeats)
        self.largest = np.pi * min(n / L for n, L in zip(grid.shape, sides))
        series = Series.on(grid, communicator)
        self._plans = {p: series.plan(p) for p in "huvq"}
        corner = np.hypot(*(n * L for n, L in zip(np.pi * np.array(grid.shape), 1 / np.array(sides))))
        self.count = int(corner / self.width + 0.5) + 2
        tile = memory.on_host(math.prod(model.decomposition.tile(0).shape) * len(communicator.ranks))
        needed = memory.of_spectra(tile, model.dtype.itemsize, transfers) + 100 * 8 * self.count
        memory.require(needed, f"Spectra: {self.count:,} wavenumbers", "use fewer cells, more ranks, or no transfers")
        self.rings = communicator.place(lambda rank: Rings({p: self._ring(p, rank) for p in self._plans}))
        self.wavenumber = self.width * np.arange(self.count)
        self.bounds = self.wavenumber[:, None] + self.width * np.array([-0.5, 0.5])
        self.bounds[0], self.bounds[1, 0] = 0.0, 0.0
        self._parts = [*_names(model)] if transfers else []
        self.names = tuple(self._rows())
        self._halo = None

    def about(self, name: str) -> dict[str, str]:
        """{"units", "long_name"} of a result, one of `names`."""
        if name not in self.names:
            raise ValueError(f"Spectra: there is no {name!r}; there are {', '.join(self.names)}.")
        quantity = next(q for q in QUANTITIES if name.startswith(q))
        _, units, described = QUANTITIES[quantity]
        what, _, by = name.removeprefix(f"{quantity}_").partition("_")
        if what == "spectrum":
            return {"units": PER_METRE[units], "long_name": f"spectrum of {described}"}
        if what == "flux":
            return {"units": _per_second(units), "long_name": f"flux of {described} to larger wavenumbers by advection"}
        text = f"rate of change of the spectrum of {described} by {by.replace('_', ' ')}"
        return {"units": _per_second(PER_METRE[units]), "long_name": text}

    # -- on the host --------------------------------------------------------------------------------------------------

    def of(
        self, state: State, *, step: int | None = None, dt: float | None = None, halo: int | None = None
    ) -> dict[str, np.ndarray]:
        """{name: (rings,)} of a State, on every rank; of an Ensemble (members, rings). Collective.

        Args:
            state: placed tile arrays.
            step, dt: the state's step number and the length of a step [s]; needed where forcing changes in time.
            halo: that of the stepper, whose programs' arguments then serve here too.

        Raises:
            ValueError: without step and dt, for transfers by forcing that changes in time.
        """
        if self.transfers and self.model.changes_in_time and (step is None or dt is None):
            raise ValueError(
                "Spectra.of: the forcing of this model changes in time, and the time of the state is missing; give "
                "step=... and dt=..., or make the Spectra with transfers=False."
            )
        if halo is None:
            self._halo = self._halo or self.model.halo(SSPRK3(dt=1.0))
            halo = self._halo
        step, dt = 0 if step is None else int(step), 1.0 if dt is None else float(dt)
        dynamics = self.model.interval(halo, step, dt)
        shares = _shares(dynamics, state, self.rings, Time(np.int32(step), dt=dt), spectra=self)
        communicator = self.model.communicator
        rows = communicator.host_sum(sum(np.asarray(x, float) for x in communicator.tiles(shares).values()))
        return {name: rows[..., k, :] for k, name in enumerate(self.names)}

    # -- inside a program ---------------------------------------------------------------------------------------------

    def traced(
        self, equations: System, state: State, rings: jax.Array, time: Time | None = None
    ) -> dict[str, jax.Array]:
        """{name: (rings,)} of the tile arrays of a State, summed over ranks; differentiable. In `communicator.spmd`.

        `time` is the Time of the state; it is needed where forcing changes in time.
        """
        rows = equations.communicator.sum(self.share(equations, state, rings, time))
        return dict(zip(self.names, rows))

    def share(self, equations: System, state: State, rings: jax.Array, time: Time | None = None) -> jax.Array:
        """The contribution of this rank's modes to each of `names`, (names, rings)."""
        if time is None and self.transfers and self.model.changes_in_time:
            raise ValueError(
                "Spectra: the forcing of this model changes in time; give the Time of the state, "
                "Time(step, dt=stepper.dt)."
            )
        time = Time(0) if time is None else time
        dt = None if time.dt is None else jnp.asarray(time.dt, state.eta.dtype)
        flow = equations.flow(state, replace(time, dt=dt, exact_dt=equations.dt))
        cells = self.model.grid.nx * self.model.grid.ny
        mean_depth = equations.communicator.replicated(total(equations.depth, flow) / cells)
        factors = 1.0 / mean_depth, equations.gravity / mean_depth, 1.0
        scale = {name: factor / (2 * cells * self.width) for name, factor in zip(QUANTITIES, factors)}
        modes = self._modes(_fields(flow))
        spectra = {q: scale[q] * self._products(q, modes, modes, rings) for q in self.quantities}
        rows = {f"{q}_spectrum": x for q, x in spectra.items()}
        if self.transfers:
            rows |= self._transfers(equations, flow, state, modes, rings, scale)
        return jnp.stack([rows[name] for name in self.names])

    def _transfers(self, equations, flow, state, modes, rings, scale):
        rates = equations.core.parts(equations, flow)
        tendencies = jax.tree.map(lambda *x: jnp.stack(x), *(State(*rates[name]) for name in self._parts))

        def of(moving):
            now = state.replace(u=moving.u, v=moving.v, eta=moving.eta)  # tracers, too, are in a State
            return _fields(equations.flow(now, flow.time))

        def along(tendency):
            _, change = jax.jvp(of, (State(state.u, state.v, state.eta),), (tendency,))
            change = self._modes(change)
            both = lambda q: self._products(q, change, modes, rings) + self._products(q, modes, change, rings)  # noqa: E731
            return {q: scale[q] * both(q) for q in self.quantities}

        changes = lax.map(along, tendencies)  # one after another: memory for one
        place = {name: k for k, name in enumerate(self._parts)}
        rows: dict[str, Any] = {}
        for name, (quantity, parts) in self._rows().items():
            if parts:
                rows[name] = sum(changes[quantity][place[part]] for part in parts)
        for name in [name for name in self.names if name.endswith("_flux")]:
            rows[name] = -self.width * jnp.cumsum(rows[name.replace("_flux", "_transfer_advection")])
        return rows

    def _rows(self):
        """{name: (quantity, the directions whose changes it sums)} of all results; none for spectra and fluxes."""
        rows: dict[str, tuple[str, tuple[str, ...]]] = {f"{q}_spectrum": (q, ()) for q in self.quantities}
        names = [name for name in self._parts if name != "continuity"]
        for q in self.quantities if self.transfers else ():
            for name in names:
                parts = {
                    ("kinetic_energy", "advection"): ("advection", "continuity"),
                    ("potential_energy", "advection"): (),
                    ("potential_energy", "pressure"): ("continuity",),
                    ("potential_energy", "coriolis"): (),
                    ("enstrophy", "pressure"): (),
                }.get((q, name), (name,))
                if parts and (q != "potential_energy" or name == "pressure" or self._moves_water(name)):
                    rows[f"{q}_transfer_{name}"] = q, parts
            if q != "potential_energy" and "advection" in names:
                rows[f"{q}_flux"] = q, ()
        return rows

    def _moves_water(self, name):
        if name in self.model.core.dissipation:
            return True
        return any(term.changes_elevation for term in self.model.terms if named_after(term) == name)

    def _modes(self, fields):
        """{name: its modes} of {name: tile array}; all that go through the same plan together."""
        modes = {}
        for plan in dict.fromkeys(self._plans.values()):
            names = [name for name in fields if self._plans[POSITIONS[name]] == plan]
            if names:
                modes |= zip(names, plan.forward(jnp.stack([fields[name] for name in names])))
        return modes

    def _products(self, quantity, left, right, rings):
        """The sums over rings of Re(a* b) of this rank's modes, (rings,)."""
        sums = 0.0
        for a, b in QUANTITIES[quantity][0]:
            position = POSITIONS[a]
            product = left[a].real * right[b].real
            if jnp.iscomplexobj(left[a]):
                product = product + left[a].imag * right[b].imag
            product = product * self._plans[position].waves(dtype=product.dtype).weight
            ring = rings.number[position].reshape(-1)
            sums = sums + jnp.zeros(self.count, product.dtype).at[ring].add(product.reshape(-1))
        return sums

    def _ring(self, position, rank):
        """The ring of each mode of a rank's block; those of exactly no wavenumber alone are in the first."""
        plan, squared = self._plans[position], 0.0
        for axis, kind, n, repeat in zip(range(2), plan.kinds, plan.shape, self.repeats):  # pyright: ignore[reportArgumentType]
            first, count, place = plan.mode_range(axis, rank)
            i = np.minimum(first + np.arange(count), plan.modes[axis] - 1)
            number = np.where(2 * i < n, i, i - n) if isinstance(kind, fft.Fourier) else i
            squared = squared + ((number / repeat) ** 2)[(None, slice(None)) if place else (slice(None), None)]
        nearest = np.floor(np.sqrt(squared) * min(self.repeats) + 0.5 + 1e-9)
        return np.where(squared > 0, np.maximum(nearest, 1), 0).astype(np.int32)


@jit(static_argnames="spectra")
def _shares(dynamics, state, rings, time, spectra):
    def share(dynamics, state, rings, time):
        return spectra.share(replace(dynamics, rigid_lid=spectra.rigid_lid).prepare(), state, rings, time)

    return on_each_tile(dynamics, share, at=0)(dynamics, state, rings, time)


def _fields(flow):
    """{name: tile array} of the fields of the pairs (a, b)."""
    fields = {"u": flow.u, "U": flow.U, "v": flow.v, "V": flow.V, "eta": flow.eta, "zeta": flow.vorticity}
    return {name: field.interior for name, field in fields.items()}


def _names(model):
    """The parts of a tendency, in the order of the equations."""
    named = ["advection"] * (not model.linear) + ["coriolis"] * (model.coriolis is not None)
    terms = [named_after(term) for term in model.terms]
    return dict.fromkeys([*named, "pressure", "continuity", *model.core.dissipation, *terms])


def _per_second(units):
    head, _, power = units.rpartition("s-")
    return f"{head}s-{int(power) + 1}"


def check_model(model: Model) -> None:
    """Raise ConfigError for a model whose states have no spectra."""
    grid = model.grid
    if model.layers is not None:
        raise ConfigError(
            "Spectra: there are none of layers during a run yet; write fields, and take spectra of a layer with "
            "`swmodel plot FILE --kind spectrum --layer N`."
        )
    if grid.spherical:
        raise ConfigError(
            "Spectra: wavenumbers on the sphere differ from latitude to latitude; write fields, and take spectra of a "
            "box with `swmodel plot FILE --box X0 X1 Y0 Y1`."
        )
    if model.open_sides:
        raise ConfigError(
            f"Spectra: the {', '.join(model.open_sides)} sides are open, where fields are neither periodic nor "
            "mirrored; write fields, and take spectra of a box with `swmodel plot FILE --box X0 X1 Y0 Y1`."
        )
    if not model.sea_floor.is_all_wet:
        land = grid.nx * grid.ny - model.sea_floor.wet_cells
        raise ConfigError(
            f"Spectra: {land} cells are land, where fields have no values; write fields, and take "
            "spectra of a box at sea with `swmodel plot FILE --box X0 X1 Y0 Y1`."
        )
    if min(grid.shape) < 4:
        raise ConfigError(f"Spectra: the grid has {grid.nx} x {grid.ny} cells; give it 4 or more along x and y.")
