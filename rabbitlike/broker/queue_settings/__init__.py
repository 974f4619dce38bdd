"""The table of queue settings: one row per setting, from which checks, policies, QueueSettings and docs are derived."""
