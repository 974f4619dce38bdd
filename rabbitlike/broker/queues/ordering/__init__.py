"""Order: which ready message is next, by priority and by position."""
