"""Time and steps that a turn may take.

A separate module that is never compiled: a compiled module turns its constants into C variables, which cannot be
imported.
"""

#: Time for the input of a turn, and for the whole turn including `finish`.
INPUT_NS = 3_000_000
TURN_NS = 5_000_000
#: In a turn for unfinished work of earlier turns: time for long work, and for each other kind.
WORK_NS = 2_000_000
SHARE_NS = 1_000_000
#: Upper bounds of the histogram of turn durations; one more bucket counts longer turns.
TURNS_MS = (1, 2, 5, 10, 20, 50, 100, 250, 500, 1000)
#: Steps between two reads of the clock.
STRIDE = 32
#: Steps that a call to a queue or client at the end of a turn counts for.
STEPS_PER_CALL = 8
#: While the store is behind, interval of the turns for unfinished work.
STORE_MS = 1
#: Long work pauses while this many calls wait in `later`: most publish dead letters, which takes longer than removing
#: them from their queues.
MOST_LATER = 64
