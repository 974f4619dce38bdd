"""Definitions: export and import of everything declared, entry by entry."""
