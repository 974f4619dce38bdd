"""The node: what its process uses, where it listens, its certificates and its log."""
