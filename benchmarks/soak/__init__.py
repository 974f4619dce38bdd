"""Floods, slow consumers, huge messages and mass expiry at once for minutes, measured by a well-behaved client.

`python -m benchmarks.soak` (or `make soak`) starts a broker with default settings, runs each load of `loads` in its own
process against it, samples the broker every second, and exits with 1 if a limit was exceeded.
"""
