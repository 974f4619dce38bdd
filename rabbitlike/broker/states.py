"""States of a message in its queue.

A separate module that is never compiled: a compiled module turns its constants into C variables, which cannot be
imported.
"""

READY = 0
UNACKED = 1
#: Settled in the middle of its level; skipped when its position is reached.
GONE = 2
#: On disk only, in a page; reading the page creates another object for it.
PAGED = 3
#: Failed and awaiting a retry.
AWAITING_RETRY = 4

#: Why a message is requeued: rejected or its client is gone; returned by the client; only looked at.
FAILED = 0
RETURNED = 1
LOOKED = 2

#: Whether the store has, or will have, the message. SETTLED: it no longer needs to be stored.
UNLOGGED = 0
LOGGED = 1
SETTLED = 2

#: Approximate memory of a message besides its properties and body.
MESSAGE_COST = 300
#: Minimum number of bytes that a message counts for in a commit. Small messages cost time rather than bytes: some
#: hundred nanoseconds each before the commit and after it, in one turn.
COMMIT_COST = 1024
