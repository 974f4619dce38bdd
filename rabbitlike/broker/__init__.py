"""The broker: exchanges, queues and users. Plain synchronous code with a clock passed in."""
