"""Minutes of floods, slow consumers, huge messages and mass expiry at once, with a well-behaved client measured beside.

`python -m benchmarks.soak` (or `make soak`) starts a broker with default settings, runs every load of `loads` against
it in a process of its own, samples the broker every second, and ends with exit code 1 if a limit was exceeded.
"""
