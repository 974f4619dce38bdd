"""A store that keeps nothing: data exists only in the broker's memory and ends with the process."""

from rabbitlike.storage.api import BatchReader, Recovered, StorageError, Work


class MemoryStore:
    """Implements the port without storing anything."""

    is_durable = False

    async def open(self) -> Recovered:
        return Recovered()

    async def commit(self, work: Work) -> None:
        return None

    def read(self, batch_id: int) -> bytes:
        raise StorageError(f"batch {batch_id} was never stored: there is no disk")

    def open_batch(self, batch_id: int) -> BatchReader:
        raise StorageError(f"batch {batch_id} was never stored: there is no disk")

    def spare_bytes(self) -> int:
        return 0

    async def close(self) -> None:
        return None
