"""Experiment files: TOML in, a validated `Experiment` out, with every mistake reported at once.

    tohoku.toml:12: stepper.dtt: unknown key; did you mean 'dt'?

The sections are in `physics`, `scenario` and `members`. Those of terms, boundaries, rotation and time steppers are
derived from the declarations of their classes (`parts`), and those of users' classes likewise (`own`). Conditions
between sections are in `consistency`. `swmodel.config.build.experiment` makes the model's objects from the sections.
"""

from .experiment import Draft, Experiment, Override, load, member_drafts, read, read_text

__all__ = ["Draft", "Experiment", "Override", "load", "member_drafts", "read", "read_text"]
