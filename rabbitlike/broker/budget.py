"""How long a turn may take, in time and in steps.

A module of its own, and never compiled, because a number that a compiled module makes its own is a C variable, which
nobody could import.
"""

#: How long the input of a turn is handled, and how long it may take with what `finish` does.
INPUT_NS = 3_000_000
TURN_NS = 5_000_000
#: In a turn for what is left of others: time for long work, and for each of the other kinds.
WORK_NS = 2_000_000
SHARE_NS = 1_000_000
#: Turns are counted by how long they took: no longer than each of these, or longer than all.
TURNS_MS = (1, 2, 5, 10, 20, 50, 100, 250, 500, 1000)
#: The clock is read once in so many steps.
STRIDE = 32
#: A call at the end of a turn, to a queue or a client, counts for so many.
STEPS_PER_CALL = 8
#: While the store is behind, what is left of turns gets a turn this often.
STORE_MS = 1
#: Long work pauses while so many calls wait in `later`: most are dead letters, which take longer than the deaths.
MOST_LATER = 64
