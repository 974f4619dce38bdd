"""Spark data sources and jobs that speak to the broker as any client does."""
