"""Turbulence of two layers under a mean shear: its numbers and statistics, without a model.

A uniform flow U of the upper of two layers, which are of equal depth, over a lower one at rest, on a doubly periodic
f-plane; linear drag at the bottom. Lengths are in deformation radii, L = sqrt(g' H / 2) / f, velocities in U, times in
L / U. Salmon (1980), doi:10.1080/03091928008241178; Arbic & Flierl (2004), J. Phys. Oceanogr. 34, 2257-2273.
"""

import dataclasses

import numpy as np

BOX = 30.0  # the length of the domain
DRAG = 1.0  # of the lower layer
RADIUS, F = 20e3, 1e-4  # L [m] and f [s-1]
SPEED = 0.01 * F * RADIUS  # U [m s-1]: the Rossby number is 0.01
TIME = RADIUS / SPEED  # [s]


@dataclasses.dataclass
class Statistics:
    """Means over time of both layers, from one sample a unit of time."""

    samples: list = dataclasses.field(default_factory=list)

    def add(self, u: np.ndarray, v: np.ndarray, across: np.ndarray) -> None:
        """Add a sample: u and v without the mean flow [m s-1], (2, n, n), and v psi_2 of the upper layer [m3 s-2]."""
        count = u.shape[-1]
        number = np.fft.fftfreq(count, 1.0 / count)
        ring = np.rint(np.hypot(number[:, None], number)).astype(int).ravel()
        power = sum(np.abs(np.fft.fft2(field)) ** 2 for field in (u, v)) / (2.0 * count**4 * SPEED**2)
        spectra = [np.bincount(ring, layer.ravel())[1 : count // 2] for layer in power]
        self.samples.append((*spectra, -np.mean(across) / (SPEED**2 * RADIUS)))

    def after(self, start: int) -> dict[str, list]:
        """Means of the samples from number `start` on, with standard errors that follow from eight parts of the time.

        Returns:
            {"spectra": energy of each layer by wavenumber, 1 to 20, "energy": (mean of both layers, its error),
            "flux": (that of thickness, its error)}.
        """
        upper, lower, flux = (np.array(x) for x in zip(*self.samples[start:]))
        spectra = np.stack([upper, lower])
        energy = 0.5 * spectra.sum(axis=(0, 2))
        parts = {name: [x.mean() for x in np.array_split(y, 8)] for name, y in (("energy", energy), ("flux", flux))}
        means = {name: [float(np.mean(x)), float(np.std(x) / np.sqrt(7))] for name, x in parts.items()}
        return {"spectra": spectra[:, :, :20].mean(axis=1).tolist(), **means}
