"""Where a message stands in its queue.

A module of its own, and never compiled, because a number that a compiled module makes its own is a C variable, which
nobody could import.
"""

READY = 0
UNACKED = 1
#: Settled in the middle of the line, to be skipped when its turn comes.
GONE = 2
#: On disk only, in a page; another object stands for it when the page is read.
PAGED = 3
#: It failed and waits for its next try.
AWAITING_RETRY = 4

#: Why a message comes back: it was rejected or its client is gone; it was given back; it was only looked at.
FAILED = 0
RETURNED = 1
LOOKED = 2

#: Whether the store has, or is to have, the message. SETTLED: it was to, but need not any more.
UNLOGGED = 0
LOGGED = 1
SETTLED = 2

#: Memory that a message takes beside its properties and body, roughly.
MESSAGE_COST = 300
#: What a message counts for in a commit, at least. Small ones take time there, not bytes: some hundred nanoseconds each
#: before the commit and after it, in one turn.
COMMIT_COST = 1024
