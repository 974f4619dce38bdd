-- A message that failed waits for its next try: until when, and where it is stored.
ALTER TABLE attempts ADD COLUMN due_at_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN batch_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN batch_index INTEGER NOT NULL DEFAULT 0;
