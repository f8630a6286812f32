"""Published cases are computed by programs as users run them, with all of XLA's optimisations."""

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def all_optimisations():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()
    yield
    jax.config.update("jax_disable_most_optimizations", before)
