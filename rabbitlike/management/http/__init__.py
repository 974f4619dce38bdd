"""HTTP itself: what every request passes, bodies in, JSON and errors out."""
