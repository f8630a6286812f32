"""`make verify` computes published cases by programs as users run them, with all of XLA's optimisations.

In `make test`, where grids are small, compiling takes most of the time: there they are left out, as in all other tests.
"""

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def all_optimisations(request):
    if "not verify" in request.config.getoption("markexpr"):
        yield
        return
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()
    with pytest.MonkeyPatch.context() as environment:  # of the commands that they start
        environment.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS", raising=False)
        yield
    jax.config.update("jax_disable_most_optimizations", before)
