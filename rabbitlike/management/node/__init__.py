"""The node: resource usage, listeners, certificates and log."""
