"""Helpers shared by several test folders: an in-memory broker with client ends, and a real broker process."""
