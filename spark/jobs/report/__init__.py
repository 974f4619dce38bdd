"""Results as one page with charts that needs only a browser."""
