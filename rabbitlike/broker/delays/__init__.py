"""Delayed messages: kept until they are due, in memory and on disk, and routed then."""
