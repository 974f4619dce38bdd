-- The whole schema as it is now; a new database is made of this. A change comes as a migration as well, and the two must
-- lead to the same tables. Values are opaque: what they mean is the broker's business.

-- Durable things that are not messages. Names are UTF-8 or whatever a client sent, so they are octets, not TEXT.
CREATE TABLE records (
    kind TEXT NOT NULL,
    key BLOB NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

-- Messages of one queue and one level, packed. Written once, deleted as a whole. The checksum is crc32 of the data, NULL
-- in what the first schema wrote.
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

-- All that recovery needs of a batch, so that it reads no page of data; also finds a queue's batches. Not an index, because
-- it is written in blocks: the batches above the highest batch_id in it are not described yet.
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

-- One bit per message, only for batches settled in part.
CREATE TABLE settled (
    batch_id INTEGER PRIMARY KEY,
    bitmap BLOB NOT NULL
);

CREATE TABLE marks (
    queue_id INTEGER PRIMARY KEY,
    next_position INTEGER NOT NULL,
    delivered_position INTEGER NOT NULL
);

-- Only messages that were delivered and came back, and dead letters that cannot go yet. Those that wait for another try
-- have the time it is due, letters that of their death and what is to be known of it; both, where they are.
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

-- 'batch_id': no batch ever had a higher one. Reserved in blocks, so that it is seldom written.
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- Keys of messages that a queue or exchange has seen, so that duplicates are known after a restart. Oldest first by place.
CREATE TABLE seen (
    place INTEGER PRIMARY KEY,
    owner BLOB NOT NULL,
    key BLOB NOT NULL,
    number INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
);
CREATE UNIQUE INDEX seen_keys ON seen (owner, key);
