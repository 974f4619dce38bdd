"""Routes of connections, channels and consumers."""
