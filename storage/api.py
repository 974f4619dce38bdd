"""The store's port: what the broker asks of whatever keeps things.

The broker knows nothing else of storage. A store for memory and one for disk stand behind it, and one contract suite
runs over both.
"""

from typing import Protocol


class Store(Protocol):
    """Where durable things live."""

    def close(self) -> None:
        """Bring everything to rest. Nothing may be asked of it afterwards."""
        ...
