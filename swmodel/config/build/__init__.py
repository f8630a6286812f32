"""From a validated experiment file to the model's objects."""
