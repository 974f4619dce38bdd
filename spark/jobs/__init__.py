"""Jobs over the broker's event log: what queues, priorities and consumers went through, told in tables and charts."""
