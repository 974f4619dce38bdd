"""The HTTP layer: middleware, request bodies, JSON replies and errors."""
