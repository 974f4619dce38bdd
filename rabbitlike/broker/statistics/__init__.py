"""Statistics: counts and durations, written on the hot path and read by views and metrics."""
