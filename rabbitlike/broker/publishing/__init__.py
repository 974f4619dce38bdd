"""Publishing: from an exchange to the queues, for channels and for the HTTP API."""
