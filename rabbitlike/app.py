"""Assembles and runs the broker: starts store, broker and listeners in this order, and stops them in reverse."""

import asyncio
import ctypes
import importlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rabbitlike import __version__
from rabbitlike.broker import turn
from rabbitlike.broker.alarms import DiskWatch, MemoryWatch, memory_limit, total_bytes
from rabbitlike.broker.broker import Broker
from rabbitlike.broker.journal import Journal
from rabbitlike.broker.tracing.event_columns import SCHEMA, columns
from rabbitlike.broker.tracing.events import Rows
from rabbitlike.broker.views import node_name
from rabbitlike.clock import LoopClock
from rabbitlike.config import ConfigError, Settings
from rabbitlike.reload import configure_log, reload
from rabbitlike.server.busy_poll import BusyPoll, make_busy_poll, usable_processors
from rabbitlike.server.collector import Collector, set_thresholds
from rabbitlike.server.listener import BACKLOG, Endpoint, ListenError, bind, endpoints, urls
from rabbitlike.server.transport import Transports
from rabbitlike.storage.api import StorageError, Store
from rabbitlike.storage.event_files import FOLDER, EventFiles, Lot
from rabbitlike.storage.memory import MemoryStore
from rabbitlike.storage.modes import FILE_MODE, make_private_folder

if TYPE_CHECKING:
    import ssl

    from rabbitlike.management.context import Context
    from rabbitlike.management.http.server import ManagementServer
    from rabbitlike.server.certificates import Certificates
    from rabbitlike.storage.writer import Writer

#: How long clients may take to answer connection.close when the broker stops; the whole stop takes at most 5 s.
GRACE_MS: Final = 3000
TLS_HANDSHAKE_TIMEOUT_S: Final = 5.0

CONNECTION_FORCED: Final = 320
SHUTDOWN_REASON: Final = "broker forced connection closure with reason 'shutdown'"

#: How long the loop waits for another computing thread, while a thread prepares the management.
SHORT_WAIT_S: Final = 0.0005

#: Parameters of glibc's mallopt.
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3

#: Errors that prevent a start; their text is one line with the remedy.
START_FAULTS: Final = (ConfigError, ListenError, StorageError)

log = logging.getLogger("rabbitlike")


class App:
    """A running broker with its listeners, on the loop that starts it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: The actual addresses: a port of 0 is replaced by the real one.
        self.urls: list[str] = []
        self._servers: list[asyncio.AbstractServer] = []
        self._paths: list[Path] = []
        self._writer: Writer | None = None
        self._busy_poll: BusyPoll | None = None
        self._disk: DiskWatch | None = None
        self._event_files: EventFiles | None = None
        self._management: ManagementServer | None = None
        self._context: Context | None = None
        self._certificates: Certificates | None = None
        self._stop_watching: Callable[[], None] | None = None

    async def start(self) -> None:
        """Start until clients can connect. On failure raise one of START_FAULTS and leave nothing behind."""
        settings = self.settings
        if not settings.memory:
            _check_folder(settings.data_dir)
        clock = LoopClock(asyncio.get_running_loop())
        self.broker = await self._recover(clock)
        if settings.load_definitions is not None:
            try:
                _load_definitions(self.broker, settings.load_definitions, is_strict=settings.load_definitions_strict)
            except ConfigError:
                await self._close_store()
                raise
        self._export_events()
        self._busy_poll = make_busy_poll(asyncio.get_running_loop(), settings.busy_poll_us, usable_processors())
        self.transports = Transports(self.broker, clock, self._busy_poll)
        self._memory = MemoryWatch(
            self.broker.alarms,
            clock,
            memory_limit(settings.memory_high_watermark, total_bytes()),
            interval_ms=settings.memory_check_interval_ms,
        )
        try:
            await self._listen()
        except BaseException:
            self._close_listeners()
            await self._close_store()
            raise
        self._memory.start()
        if self._disk is not None:
            self._disk.start()
        if self._certificates is not None:
            self._stop_watching = self._certificates.watch(clock)

    def reload(self, read: Callable[[], Settings]) -> None:
        """Apply the settings that `read` returns, as far as they can change while the broker runs."""
        self.settings = reload(self.settings, read, self._certificates)
        self.broker.settings = self.settings.broker
        if self._context is not None:
            self._context.settings = self.settings

    async def _recover(self, clock: LoopClock) -> Broker:
        """Make the broker with everything the last run stored."""
        settings = self.settings
        if settings.memory:
            self.store: Store = MemoryStore()
            return Broker(settings.broker, self.store, clock)
        from rabbitlike.storage.store import SqliteStore
        from rabbitlike.storage.writer import Writer

        self.store = store = SqliteStore(settings.data_dir, settings.durability)
        recovered = await store.open()
        journal = Journal(lambda: writer.wake())
        broker = Broker(settings.broker, self.store, clock, journal)
        disk = DiskWatch(
            broker.alarms,
            clock,
            settings.disk_free_limit,
            settings.data_dir,
            spare=store.spare_bytes,
            find_fault=store.find_fault,
        )

        def failed(error: StorageError) -> None:
            disk.failing(True)
            broker.commit_failed()

        def resumed() -> None:
            disk.failing(False)

        def committed(number: int) -> None:
            had_waiters = bool(broker.commit_waiters)
            broker.committed(number)
            if had_waiters and not broker.commit_waiters and self._busy_poll is not None:
                self._busy_poll.prolong()  # clients that waited for their confirms publish again

        def is_held() -> bool:
            return journal.is_held

        writer = Writer(self.store.commit, journal.take, committed, failed, resumed, broker.commits.done, is_held)
        broker.recover(recovered)
        writer.start()
        self._writer, self._disk = writer, disk
        return broker

    def _export_events(self) -> None:
        """Write events to files, from the first one on; memory keeps them only for a while."""
        settings, events = self.settings, self.broker.events
        if settings.memory:
            return
        node = node_name(settings)
        self._event_files = EventFiles(
            settings.data_dir / FOLDER,
            node,
            SCHEMA,
            max_age_s=settings.event_log_max_age,
            max_bytes=settings.event_log_max_bytes,
        )
        submit = self._event_files.submit

        def export(rows: Rows) -> bool:
            return submit(Lot(rows.first_seq, rows.hour_end_ms - 1, partial(columns, rows, node), rows.release))

        events.export = export

    async def _close_store(self) -> None:
        if self._event_files is not None:
            await asyncio.to_thread(self._event_files.drain)  # otherwise the last rows might be refused
            self.broker.events.seal()
            await asyncio.to_thread(self._event_files.close)
        try:
            if self._writer is not None:
                self.broker.settle_marks()
                await self._writer.close()
        finally:
            await self.store.close()

    async def stop(self) -> None:
        """Stop accepting, close every client's connection, and close the store."""
        self._close_listeners()
        if self._management is not None:
            await self._management.stop()
        self._memory.stop()
        if self._disk is not None:
            self._disk.stop()
        if self._stop_watching is not None:
            self._stop_watching()
        await self.transports.close(CONNECTION_FORCED, SHUTDOWN_REASON, GRACE_MS)
        await self._close_store()

    async def _listen(self) -> None:
        if self.settings.tls_certfile is not None:
            from rabbitlike.server.certificates import Certificates

            self._certificates = Certificates(self.settings)
        for endpoint, sockets in _bind_all(endpoints(self.settings)):
            for bound in sockets:
                self._servers.append(await self._serve(endpoint, bound))
            if endpoint.path is not None:
                self._paths.append(endpoint.path)
            self.urls.extend(urls(endpoint, sockets))

    def _tls(self, endpoint: Endpoint, bound: socket.socket) -> "ssl.SSLContext | None":
        if not endpoint.tls or self._certificates is None:
            return None
        return self._certificates.context(next(urls(endpoint, [bound])))

    async def _serve(self, endpoint: Endpoint, bound: socket.socket) -> asyncio.AbstractServer:
        loop = asyncio.get_running_loop()
        make = self.transports.make
        if endpoint.path is not None:
            return await loop.create_unix_server(make, sock=bound, backlog=BACKLOG)
        tls = self._tls(endpoint, bound)
        timeout_s = None
        if tls is not None:
            timeout_s = min(TLS_HANDSHAKE_TIMEOUT_S, self.settings.broker.handshake_timeout_ms / 1000)
        return await loop.create_server(make, sock=bound, backlog=BACKLOG, ssl=tls, ssl_handshake_timeout=timeout_s)

    async def start_management(self) -> None:
        """Start the HTTP API; after AMQP, because clients wait for that."""
        bound = _bind_all(list(_management_endpoints(self.settings)))
        if not bound:
            return
        # Importing takes longer than the rest of the start, so clients are served meanwhile.
        for name in ("rabbitlike.management.http.server", "rabbitlike.storage.event_search"):
            await asyncio.to_thread(importlib.import_module, name)
        from rabbitlike.management.context import Context
        from rabbitlike.management.http.server import ManagementServer
        from rabbitlike.storage.event_search import search

        self._context = context = Context(self.broker, self.settings, self.urls, self.broker.clock.now_ms())
        if self._event_files is not None:
            context.search_event_files = partial(search, self._event_files.folder)
        self._management = ManagementServer(context)
        for endpoint, sockets in bound:
            if endpoint.option == "prometheus_port":
                context.prometheus_port = sockets[0].getsockname()[1]
                await self._management.start_metrics(sockets)
            else:
                await self._management.start(sockets, self._tls(endpoint, sockets[0]))
            self.urls.extend(urls(endpoint, sockets))

    async def prepare_management(self) -> None:
        """Prepare what the first requests would otherwise wait for."""
        if self._management is not None:
            await self._management.make_routes()

    def _close_listeners(self) -> None:
        for server in self._servers:
            server.close()
        for path in self._paths:
            path.unlink(missing_ok=True)
        self._servers.clear()
        self._paths.clear()


def run(settings: Settings, read: Callable[[], Settings]) -> int:
    """Serve until SIGTERM or Ctrl-C; return the exit code. SIGHUP applies the settings that `read` returns."""
    configure_log(settings)
    _raise_file_limit()
    _limit_malloc_arenas()
    set_thresholds()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_run(settings, read))


async def _run(settings: Settings, read: Callable[[], Settings]) -> int:
    loop = asyncio.get_running_loop()
    stopped, asked = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    loop.add_signal_handler(signal.SIGHUP, asked.set)
    app = App(settings)
    await app.start()
    try:
        _announce(app.urls)
        announced = len(app.urls)
        with _short_waits():
            await app.start_management()
            _announce(app.urls[announced:])
        log.info("rabbitlike %s is ready (%s)", __version__, _build_name())
        collector = Collector(LoopClock(loop))
        tasks = [
            asyncio.create_task(_prepare(app, collector), name="prepare"),
            asyncio.create_task(_reload_when(asked, app, read), name="reload"),
        ]
        await stopped.wait()
        for task in tasks:
            task.cancel()
        collector.stop()
        log.info("stopping: %d connections", len(app.transports.open))
    finally:
        await app.stop()
        # Closing the loop would make SIGHUP deadly again while Python is still exiting.
        loop.remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return 0


async def _prepare(app: App, collector: Collector) -> None:
    """Do work that can wait until clients are served."""
    with _short_waits():
        await app.prepare_management()
    collector.freeze()
    collector.start()


async def _reload_when(asked: asyncio.Event, app: App, read: Callable[[], Settings]) -> None:
    while True:
        await asked.wait()
        asked.clear()
        try:
            app.reload(read)
        except Exception:
            log.exception("reload: keeping the current options")


def _bind_all(wanted: list[Endpoint]) -> list[tuple[Endpoint, list[socket.socket]]]:
    """Bind all endpoints or none; raise ListenError."""
    found: list[tuple[Endpoint, list[socket.socket]]] = []
    try:
        for endpoint in wanted:
            found.append((endpoint, bind(endpoint)))  # noqa: PERF401  (what was bound must be known if one fails)
    except ListenError:
        for _, sockets in found:
            for bound in sockets:
                bound.close()
        raise
    return found


def _management_endpoints(settings: Settings) -> Iterator[Endpoint]:
    if settings.management_port is not None:
        yield Endpoint("http", settings.host, settings.management_port, option="management_port")
    if settings.tls_certfile is not None and settings.management_tls_port is not None:
        yield Endpoint("https", settings.host, settings.management_tls_port, option="management_tls_port")
    if settings.prometheus_port is not None:
        yield Endpoint("http", settings.host, settings.prometheus_port, option="prometheus_port")


def _announce(found: list[str]) -> None:
    with suppress(BrokenPipeError):
        for url in found:
            sys.stdout.write(f"rabbitlike: listening on {url}\n")
        sys.stdout.flush()


def _check_folder(folder: Path) -> None:
    probe = folder / ".writable"
    try:
        make_private_folder(folder)
        probe.touch(FILE_MODE)
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"cannot write to the data folder {folder}: {error.strerror}; choose another with --data-dir, or --memory"
        ) from None


def _load_definitions(broker: Broker, path: Path, *, is_strict: bool) -> None:
    import json

    from rabbitlike.broker.definitions.imports import Import

    try:
        document = json.loads(path.read_text("utf-8-sig"))
        taken = Import(broker, document, is_strict=is_strict)
        broker.turn.begin()
        for _ in taken.steps():
            pass
        broker.turn.finish()
    except OSError as error:
        raise ConfigError(f"load_definitions: cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        said = " ".join(str(error).split())
        raise ConfigError(f"load_definitions: {path} cannot be taken in: {said}") from None
    counts = [f"{count} {what}" for what, count in taken.counts.items()]
    if taken.skipped:
        counts.append(f"{len(taken.skipped)} not supported and not taken over")
    log.info("definitions of %s: %s", path, ", ".join(counts) or "nothing")


@contextmanager
def _short_waits() -> Iterator[None]:
    """Shorten the time that a computing thread can keep the loop waiting: Python's 5 ms each time would delay every
    client. Normally threads do not compute here, and should not interrupt a busy loop."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(SHORT_WAIT_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual_s)


def _limit_malloc_arenas() -> None:
    """Keep freed memory for the next read instead of returning it and requesting it again.

    Reads, answers and bodies allocate and free megabytes; by default the C library maps and unmaps each large block,
    and the page faults cost more than the messages. Memory left from a burst is returned when the memory alarm requests
    it.
    """
    with suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 32 << 20)
        mallopt(M_TRIM_THRESHOLD, 256 << 20)


def _build_name() -> str:
    return "compiled" if not str(turn.__file__).endswith(".py") else "pure Python; a C compiler makes it faster"


def _raise_file_limit() -> None:
    """Raise the limit of open files: each client takes one, and the usual soft limit of 1024 is outdated."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1_048_576 if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def new_loop() -> asyncio.AbstractEventLoop:
    """A uvloop loop, or the standard one if uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
