"""What several test folders share: an in-memory broker with client ends, and a real broker process."""
