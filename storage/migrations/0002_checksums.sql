-- Damage inside a batch is noticed: crc32 of its data. NULL in what was written before.
ALTER TABLE batches ADD COLUMN checksum INTEGER;
