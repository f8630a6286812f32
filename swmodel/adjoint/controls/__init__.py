"""Controls: the leaves of a model that a cost is differentiated in, and transforms of them."""
