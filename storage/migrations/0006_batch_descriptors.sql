-- Batches have no index any more: a commit of one message wrote a second page for it. Recovery reads this table instead,
-- and of the batches only those that came after the last one in it.
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
INSERT INTO batch_descriptors
SELECT queue_id, batch_id, level, first_position, last_position, count, body_bytes, expires_at_ms, is_transient
FROM batches INDEXED BY descriptors;
DROP INDEX descriptors;
