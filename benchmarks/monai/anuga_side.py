"""ANUGA of experiments/monai_valley, as setup.json in the current folder describes it; prints one line of JSON.

    python anuga_side.py        # with a Python that has ANUGA 4.1

A square of four cells becomes four triangles, so that there are as many triangles as cells. ANUGA's default algorithm
(DE0: discontinuous elevation, one stage a step) has the level at x = 0 as a stage, with the normal momentum of the
triangle inside.
"""

import json
import time

import anuga
import numpy as np


def domain_of(setup):
    """(the Domain, the function of time that gives the level at x = 0)."""
    (nx, ny), (length, width) = setup["cells"], setup["size"]
    made = anuga.rectangular_cross_domain(round(nx / 2), round(ny / 2), len1=length, len2=width)
    made.set_store(False)
    made.set_omp_num_threads(setup["threads"])
    x, y, depth = (np.array(setup["topography"][name]) for name in ("x", "y", "depth"))
    times, levels = np.array(setup["wave"]["times"]), np.array(setup["wave"]["levels"])

    def elevation(at_x, at_y):
        i = np.clip(np.searchsorted(x, at_x) - 1, 0, len(x) - 2)
        j = np.clip(np.searchsorted(y, at_y) - 1, 0, len(y) - 2)
        a, b = np.clip((at_x - x[i]) / (x[i + 1] - x[i]), 0, 1), np.clip((at_y - y[j]) / (y[j + 1] - y[j]), 0, 1)
        south = (1 - a) * depth[j, i] + a * depth[j, i + 1]
        north = (1 - a) * depth[j + 1, i] + a * depth[j + 1, i + 1]
        return -((1 - b) * south + b * north)

    made.set_quantity("elevation", elevation, location="centroids")
    made.set_quantity("friction", setup["roughness"])
    made.set_quantity("stage", expression="0.0 * elevation")
    stage = made.quantities["stage"].centroid_values
    np.maximum(stage, made.quantities["elevation"].centroid_values, out=stage)

    def wave(t):
        return float(np.interp(t, times, levels))

    walls = anuga.Reflective_boundary(made)
    maker = anuga.Transmissive_n_momentum_zero_t_momentum_set_stage_boundary(made, wave)
    made.set_boundary({"left": maker, "right": walls, "top": walls, "bottom": walls})
    return made


def main():
    with open("setup.json") as file:
        setup = json.load(file)
    domain = domain_of(setup)
    places = {name: domain.get_triangle_containing_point(point) for name, point in setup["gauges"].items()}
    times, series, steps = [], {name: [] for name in places}, 0
    began = time.perf_counter()
    for t in domain.evolve(yieldstep=setup["every"], finaltime=setup["seconds"]):
        times.append(float(t))
        steps += domain.number_of_steps
        for name, k in places.items():
            series[name].append(float(domain.quantities["stage"].centroid_values[k]))
    seconds = time.perf_counter() - began
    found = {"seconds": seconds, "steps": steps, "cells": domain.number_of_triangles, "times": times, "series": series}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
