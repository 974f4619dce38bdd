"""Routes of messages: publish, get, RPC; delayed messages, dead letters, traces."""
