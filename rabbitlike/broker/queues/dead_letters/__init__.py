"""Dead-lettering: why a queue gives a message up, where that goes, and where it is kept."""
