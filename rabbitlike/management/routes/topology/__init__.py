"""Routes of vhosts, exchanges, queues and bindings."""
