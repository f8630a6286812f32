"""Experiment files: TOML in, a validated `Experiment` out, with every mistake reported at once.

    tohoku.toml:12: stepper.dtt: unknown key; did you mean 'dt'?

The sections are in `physics`, `scenario` and `members`. Those of terms, boundaries, rotation and time steppers are made
of the declarations of their classes (`parts`), and those of a user's own classes likewise (`own`). What only holds
between sections is in `consistency`; `swmodel.config.build.experiment` makes the model's objects of them.
"""

from .experiment import Draft, Experiment, Override, load, member_drafts, read, understand

__all__ = ["Draft", "Experiment", "Override", "load", "member_drafts", "read", "understand"]
