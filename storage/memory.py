"""A store that keeps nothing: what is in the broker's memory is all there is, and it ends with the process."""


class MemoryStore:
    """Satisfies the port and has nothing to do."""

    def close(self) -> None:
        return None
