"""Imports definitions.

A dry run (`dry_run.py`) reads the document first, so that a document with a fault changes nothing. Then `reader.py`
applies its entries in order of their dependencies. Entries that need features this broker does not have are skipped, or
refused if the import is strict. `exports.py` writes definitions. Nothing here blocks for long: callers process a long
document entry by entry and pause between entries.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.definitions.dry_run import DryRun
from rabbitlike.broker.definitions.entries import DefinitionsError, Entry, check_document
from rabbitlike.broker.definitions.reader import MOST_LOGGED, Reader

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.terms import Json

#: Maximum number of entries named in the refusal of a strict import.
MOST_NAMED: Final = 10

log = logging.getLogger(__name__)

Categories = Mapping[str, Sequence[Mapping[str, "Json"]]]


class Import:
    """The import of one document."""

    def __init__(
        self,
        broker: Broker,
        document: Json,
        *,
        vhost: str | None = None,
        importer: str | None = None,
        is_strict: bool = False,
    ) -> None:
        """With `vhost` the document is for one vhost: it has no accounts, and its entries need not name the vhost. The
        user `importer` gets full permissions in new vhosts."""
        self._broker = broker
        self._document = document
        self._only = vhost
        self._importer = importer
        self._is_strict = is_strict
        #: Number of entries read in each category.
        self.counts: dict[str, int] = {}
        #: Reasons for skipped entries.
        self.skipped: list[str] = []

    def steps(self) -> Iterator[None]:
        """Import the document, one entry with each step. Raises DefinitionsError, which names the entry: then nothing
        has changed, unless other clients have changed the broker since the first step."""
        if self._only is not None and self._only not in self._broker.vhosts:
            raise DefinitionsError("vhost_not_found")
        categories = check_document(self._document, is_whole=self._only is None)
        yield from self._dry_run(categories)
        reader = Reader(self._broker, self._importer)
        self.skipped = reader.skipped
        yield from self._read(reader, categories)
        if len(self.skipped) > MOST_LOGGED:
            log.warning("definitions: skipped %d more entries", len(self.skipped) - MOST_LOGGED)

    def _dry_run(self, categories: Categories) -> Iterator[None]:
        dry_run = DryRun(self._broker)
        fault: DefinitionsError | None = None
        try:
            yield from self._read(dry_run, categories)
        except DefinitionsError as error:
            fault = error
        yield from dry_run.end()
        if fault is not None:
            raise fault
        if self._is_strict and dry_run.skipped:
            named = "; ".join(dry_run.skipped[:MOST_NAMED])
            raise DefinitionsError(f"strict import refused, {len(dry_run.skipped)} not supported: {named}")

    def _read(self, reader: Reader, categories: Categories) -> Iterator[None]:
        for category, take in reader.order(is_whole=self._only is None):
            entries = categories.get(category, [])
            if category == "queues":
                reader.check_queue_limits(entries, self._only)
            for values in entries:
                vhost = str(values.get("vhost", "")) if self._only is None else self._only
                reader.take(take, Entry(category, values, vhost))
                yield
            if entries:
                self.counts[category] = len(entries)
