"""Schemas: which bodies a queue or exchange takes, and what checking one may cost."""
