-- Keys of messages that a queue or exchange has seen, so that duplicates are known after a restart.
CREATE TABLE seen (
    place INTEGER PRIMARY KEY,
    owner BLOB NOT NULL,
    key BLOB NOT NULL,
    number INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
);
CREATE UNIQUE INDEX seen_keys ON seen (owner, key);
