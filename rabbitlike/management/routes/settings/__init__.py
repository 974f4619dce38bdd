"""Routes of definitions, policies and parameters."""
