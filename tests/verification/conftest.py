"""Published cases are computed by programs as users run them, with all of XLA's optimisations."""

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def all_optimisations():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()
    with pytest.MonkeyPatch.context() as environment:  # of the commands that they start
        environment.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS", raising=False)
        yield
    jax.config.update("jax_disable_most_optimizations", before)
