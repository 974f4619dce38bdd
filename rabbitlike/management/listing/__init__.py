"""Lists: objects as answers show them, filtered, sorted, cut to a page and written in slices."""
