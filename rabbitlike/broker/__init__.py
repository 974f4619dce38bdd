"""The rules: exchanges, queues, users. Plain synchronous code with a clock passed in."""
