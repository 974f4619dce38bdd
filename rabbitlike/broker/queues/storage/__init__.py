"""A queue's messages on disk: the log, its records, and pages that leave memory and come back."""
