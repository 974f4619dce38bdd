"""Where a message stands in its queue.

A module of its own, and never compiled, because a number that a compiled module makes its own is a C variable, which
nobody could import.
"""

READY = 0
UNACKED = 1
#: Settled in the middle of the line, to be skipped when its turn comes.
GONE = 2
