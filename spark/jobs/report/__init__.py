"""Results told to people: one page with charts, that needs nothing but a browser."""
