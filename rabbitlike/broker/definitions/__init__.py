"""Definitions: documents of all that is declared, written and read entry by entry."""
