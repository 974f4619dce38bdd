"""Order of delivery: by priority and by position."""
