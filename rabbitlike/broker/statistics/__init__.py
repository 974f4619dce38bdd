"""Statistics: counts and durations that the hot path adds to and everybody else reads."""
