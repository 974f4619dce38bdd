"""Lists in answers: filtered, sorted, paginated and written in slices."""
