"""Definitions: taking in a document of all that is to be declared.

A dry run reads the document first (`dry_run.py`), then it is read (`reader.py`) in an order in which everything
finds what it needs: a document with a fault changes nothing. What this broker does not have is passed over, or refused
if the import is strict. `exports.py` writes a document.
Nothing here waits: whoever reads or writes a long document takes it entry by entry and pauses between them.
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

#: Entries that a refusal of a strict import names.
MOST_NAMED: Final = 10

log = logging.getLogger(__name__)

Categories = Mapping[str, Sequence[Mapping[str, "Json"]]]


class Import:
    """One document on its way in."""

    def __init__(
        self,
        broker: Broker,
        document: Json,
        *,
        vhost: str | None = None,
        importer: str | None = None,
        is_strict: bool = False,
    ) -> None:
        """With `vhost` it is one vhost's: no accounts, and no entry need name it. `importer` may do everything in
        vhosts that are new."""
        self._broker = broker
        self._document = document
        self._only = vhost
        self._importer = importer
        self._is_strict = is_strict
        #: How many entries of each category were read.
        self.counts: dict[str, int] = {}
        #: Why entries were passed over.
        self.skipped: list[str] = []

    def steps(self) -> Iterator[None]:
        """Take it in, one entry with each step. Raises DefinitionsError, which names the entry: nothing has changed
        then, unless others have changed the broker since the first step."""
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
