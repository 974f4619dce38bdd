"""Routes of the node: overview, health, metrics, log."""
