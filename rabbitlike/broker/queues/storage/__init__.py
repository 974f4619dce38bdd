"""A queue's messages on disk: the log, its records, and paging."""
