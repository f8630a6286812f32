"""Experiment files: TOML in, a validated `Experiment` out, with every mistake reported at once.

    tohoku.toml:12: stepper.dtt: unknown key; did you mean 'dt'?

A section reads, checks and builds its part. Those that every file has are in `scenario` and `physics`; the modules of
others are loaded where a file has them: `initial`, `source`, `nests`, `adjoint`, `inversion`. Sections of terms,
boundaries, rotation and time steppers are derived from the declarations of their classes (`parts`), and those of users'
classes likewise (`own`); `solvers` and `from_files` have further keys. Conditions between sections are in
`consistency`.
`assembly` builds all objects of a model, and `families` those of nests and members.
"""

from .experiment import Draft, Experiment, Override, load, member_drafts, read, read_text

__all__ = ["Draft", "Experiment", "Override", "load", "member_drafts", "read", "read_text"]
