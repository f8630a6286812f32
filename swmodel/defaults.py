"""Default values that constructors and the keys of experiment files share."""

AB2_EPSILON = 0.1  # of AB2, and of the explicit part of implicit schemes
THETA = 0.6  # of SemiImplicit and SplitExplicit
SUBSTEPS = 60  # of SplitExplicit
GRAVITY = 9.81  # [m s-2]
EARTH_RADIUS = 6.371e6  # [m]
EARTH_ROTATION = 7.292115e-5  # [s-1]
WATER_DENSITY = 1025.0  # [kg m-3]
AIR_DENSITY = 1.22  # [kg m-3]
WIND_DRAG = "large_pond_1981"
MINIMUM_DEPTH = 20.0  # [m], of depths from files
RIGIDITY = 4.0e10  # [Pa]
MAXIMA_THRESHOLD = 0.01  # [m]
HYPERVISCOSITY_ORDER = 4
FILTER_STRENGTH = 36.0
FILTER_ORDER = 36
LONGEST_CHUNK = 4096  # steps in one call of a run's program, whose readings of gauges are kept and written together
LEAST_THICKNESS = 1.0  # [m]; a run stops where the water is thinner
