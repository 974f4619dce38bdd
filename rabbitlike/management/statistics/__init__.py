"""Statistics: rates and history of all objects, sampled off the hot path."""
