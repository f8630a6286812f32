"""What all of GeoClaw's sides have in common: one level of uniform cells, second order, no checkpoints."""

from typing import Any

from clawpack.clawutil import data


def uniform_run(
    lower: tuple[float, float],
    upper: tuple[float, float],
    cells: tuple[int, int],
    seconds: float,
    radius: float | None,
    fields: int = 0,
    roughness: float = 0.025,
) -> Any:
    """GeoClaw's settings: open sides, Manning's drag, on a sphere Coriolis too, output at the end alone.

    Args:
        lower, upper: corners of the grid [degrees, on a plane m].
        cells: numbers of cells along x and y.
        seconds: length of the run.
        radius: of the sphere [m]; None for a plane.
        fields: number of auxiliary fields, in addition to depth and on a sphere capacity and lengths of edges.
        roughness: Manning's n [s m-1/3].
    """
    rundata, sphere = data.ClawRunData("geoclaw", 2), radius is not None
    c = rundata.clawdata
    c.num_dim = 2
    c.lower[:], c.upper[:], c.num_cells[:] = lower, upper, cells
    own = ["center", "capacity", "yleft"] if sphere else ["center"]
    c.num_eqn, c.num_aux, c.capa_index = 3, len(own) + fields, 2 if sphere else 0
    c.t0, c.output_style, c.tfinal, c.num_output_times = 0.0, 1, seconds, 1
    c.output_t0, c.output_format, c.output_q_components = False, "ascii", "all"
    c.output_aux_components, c.output_aux_onlyonce = "none", True
    c.verbosity, c.dt_variable, c.dt_initial, c.dt_max = 0, True, 1.0, 1e99
    c.cfl_desired, c.cfl_max, c.steps_max = 0.75, 1.0, 1000000
    c.order, c.dimensional_split, c.transverse_waves = 2, "unsplit", 2
    c.num_waves, c.limiter, c.use_fwaves, c.source_split, c.num_ghost = 3, ["mc"] * 3, True, "godunov", 2
    c.bc_lower[:] = c.bc_upper[:] = ["extrap", "extrap"]
    c.checkpt_style = 0
    a = rundata.amrdata
    a.amr_levels_max = 1
    a.refinement_ratios_x = a.refinement_ratios_y = a.refinement_ratios_t = [2]
    a.aux_type = own + ["center"] * fields
    a.flag_richardson, a.flag2refine, a.regrid_interval, a.verbosity_regrid = False, False, 1000000, 0
    g = rundata.geo_data
    g.gravity, g.coordinate_system, g.earth_radius = 9.81, 2 if sphere else 1, radius or 6.371e6
    g.coriolis_forcing, g.friction_forcing, g.manning_coefficient, g.friction_depth = sphere, True, roughness, 1e10
    g.sea_level, g.dry_tolerance = 0.0, 1e-2
    rundata.topo_data.topofiles = [[3, "depth.tt3"]]
    return rundata
