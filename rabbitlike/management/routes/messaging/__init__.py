"""Routes of messages: published, fetched, delayed, dead-lettered, traced."""
