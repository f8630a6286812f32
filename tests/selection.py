"""Which parameters of a claim `make test` takes, and which are left to `make verify`."""

import pytest


def now(values, *chosen):
    """`values` for pytest.mark.parametrize, of which all but those `chosen` are marked `verify`."""
    left = [value for value in chosen if value not in values]
    assert not left, f"not among the values: {left}"
    return [value if value in chosen else later(*(value if isinstance(value, tuple) else (value,))) for value in values]


def later(*values, **options):
    """One parameter, or several values of one, that `make verify` takes alone."""
    return pytest.param(*values, marks=pytest.mark.verify, **options)
