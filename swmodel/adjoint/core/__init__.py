"""The forward run and its adjoint: checkpoint schedules, where checkpoints are kept, and compiled programs."""
