"""SI values of the units that people write: `300 * km`, `3 * year`."""

minute = 60.0  # [s]
hour = 3600.0
day = 86400.0
year = 365.25 * day
km = 1000.0  # [m]
degree = 0.017453292519943295  # [rad]
Sv = 1.0e6  # [m3 s-1]
