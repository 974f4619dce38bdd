"""Sockets: listeners, transport, heartbeats, TLS."""
