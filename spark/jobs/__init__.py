"""Jobs over the broker's event log: tables and charts about queues, priorities and consumers."""
