"""Schemas: which bodies a queue or exchange accepts, and how much validation may cost."""
