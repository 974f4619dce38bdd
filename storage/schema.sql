-- The current schema, from which new databases are made. Every change also needs a migration; both must lead to the same
-- tables. Values are opaque to the store; the broker interprets them.

-- Durable objects other than messages. Names are octets, not TEXT, because clients may send invalid UTF-8.
CREATE TABLE records (
    kind TEXT NOT NULL,
    key BLOB NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

-- Messages of one queue and level, packed. Written once, deleted as a whole. The checksum is crc32 of the data; NULL in
-- batches that the first schema wrote.
CREATE TABLE batches (
    batch_id INTEGER PRIMARY KEY,
    queue_id INTEGER NOT NULL,
    level INTEGER NOT NULL,
    first_position INTEGER NOT NULL,
    last_position INTEGER NOT NULL,
    count INTEGER NOT NULL,
    body_bytes INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    is_transient INTEGER NOT NULL,
    data BLOB NOT NULL,
    checksum INTEGER
);

-- What recovery needs of a batch, so that it reads no data pages; also used to find a queue's batches. Not an index,
-- because it is written in blocks: the batches above its highest batch_id are not described yet.
CREATE TABLE batch_descriptors (
    queue_id INTEGER NOT NULL,
    batch_id INTEGER NOT NULL,
    level INTEGER NOT NULL,
    first_position INTEGER NOT NULL,
    last_position INTEGER NOT NULL,
    count INTEGER NOT NULL,
    body_bytes INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    is_transient INTEGER NOT NULL,
    PRIMARY KEY (queue_id, batch_id)
) WITHOUT ROWID;

-- One bit per message, only for partly settled batches.
CREATE TABLE settled (
    batch_id INTEGER PRIMARY KEY,
    bitmap BLOB NOT NULL
);

CREATE TABLE marks (
    queue_id INTEGER PRIMARY KEY,
    next_position INTEGER NOT NULL,
    delivered_position INTEGER NOT NULL
);

-- Only messages that were delivered and returned, and held dead letters. due_at_ms is the due time of a retry, or the time
-- of a dead letter's death; both have the place where they are stored, a dead letter also its death.
CREATE TABLE attempts (
    queue_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    count INTEGER NOT NULL,
    due_at_ms INTEGER NOT NULL DEFAULT 0,
    batch_id INTEGER NOT NULL DEFAULT 0,
    batch_index INTEGER NOT NULL DEFAULT 0,
    death BLOB NOT NULL DEFAULT x'',
    PRIMARY KEY (queue_id, position)
) WITHOUT ROWID;

-- 'batch_id': an upper bound of all batch ids ever assigned, reserved in blocks, so that it is rarely written.
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- Deduplication keys that queues and exchanges have seen, to recognize duplicates after a restart. Oldest first by place.
CREATE TABLE seen (
    place INTEGER PRIMARY KEY,
    owner BLOB NOT NULL,
    key BLOB NOT NULL,
    number INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
);
CREATE UNIQUE INDEX seen_keys ON seen (owner, key);
