"""Time steppers, their stability limits, and the loops that make many steps."""
