"""Dead-lettering: why a queue dead-letters a message, where it sends it, and which dead letters it holds."""
