"""Delayed messages: kept in memory and on disk until they are due, then routed."""
