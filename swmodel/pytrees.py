"""Frozen dataclasses that JAX sees as pytrees: array fields are leaves, fields marked `static()` are structure."""
import dataclasses

import jax

__all__ = ["pytree", "static", "replace"]

replace = dataclasses.replace


def static(**options):
    """A dataclass field that belongs to the structure: hashable, compared by value, never differentiated."""
    return dataclasses.field(metadata={"static": True}, **options)


def pytree(cls):
    """Make `cls` a frozen dataclass and register it as a pytree."""
    cls = dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(cls)
    return jax.tree_util.register_dataclass(
        cls,
        data_fields=[f.name for f in fields if not f.metadata.get("static")],
        meta_fields=[f.name for f in fields if f.metadata.get("static")],
    )
