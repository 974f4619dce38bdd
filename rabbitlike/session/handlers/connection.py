"""connection.*: from the protocol header to an open connection, and its orderly close.

`greet` answers the header. Every later method first checks the handshake's table for whether the method is allowed in
this state, then changes the state. The answer to a refused login never contains the reason; the log does.
"""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from pamqp import commands

from rabbitlike.broker.accounts.login_attempts import AMQP
from rabbitlike.protocol import handshake, methods
from rabbitlike.protocol.constants import FRAME_OVERHEAD
from rabbitlike.protocol.errors import AmqpError, access_refused, not_allowed
from rabbitlike.protocol.handshake import Credentials, State, Tuning, next_state
from rabbitlike.protocol.tables import Table
from rabbitlike.session.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from pamqp.base import Frame

    from rabbitlike.broker.accounts.users import User
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.session.connection import Connection

log = logging.getLogger(__name__)

#: Delay of the refusal after too many failed logins.
REFUSAL_DELAY_MS: Final = 1000
#: Longest logged part of a user name, because clients can send names of any length.
MAX_SAID: Final = 64

_OPEN_OK = methods.encode(methods.make(commands.Connection.OpenOk), 0)
_CLOSE_OK = methods.encode(methods.make(commands.Connection.CloseOk), 0)


def greet(connection: Connection, header: bytes) -> bool:
    """Answer the protocol header. False if the client speaks another protocol; then the socket is closed."""
    peer_protocol = handshake.check_header(header)
    if peer_protocol is not None:
        log.warning("connection %s: peer speaks %s", connection.name, peer_protocol)
        # spec: send the supported protocol header and close.
        connection.wire.write(handshake.PROTOCOL_HEADER)
        connection.wire.close()
        return False
    settings = connection.settings
    offered = handshake.mechanisms(connection.peer.certificate_name)
    connection.state = State.AWAIT_START_OK
    connection.put(_start_frame(settings.product, settings.version, settings.cluster_name, offered))
    return True


@lru_cache(maxsize=16)
def _start_frame(product: str, version: str, cluster_name: str, offered: str) -> bytes:
    """The connection.start frame; cached, because it is long and the same for all clients."""
    properties = handshake.server_properties(product=product, version=version, cluster_name=cluster_name)
    return methods.encode(handshake.start(properties, offered), 0)


def start_ok(connection: Connection, method: commands.Connection.StartOk) -> None:
    following = next_state(connection.state, method)
    properties = method.client_properties
    connection.client_properties = properties if isinstance(properties, Table) else Table()
    connection.capabilities = _capabilities(connection.client_properties)
    connection.mechanism = method.mechanism
    credentials = handshake.read_credentials(method.mechanism, method.response, connection.peer.certificate_name)
    failures, host = connection.broker.login_failures, connection.peer.host
    if credentials.password is not None and failures.wait_ms(host, credentials.user):
        _refuse_unchecked(connection, credentials.user)
        return
    user = _log_in(connection, credentials)
    if user is None:
        _refuse_login(connection)
        return
    connection.user = user
    connection.state = following
    connection.put(_tune_frame(_offer(connection)))


@lru_cache(maxsize=16)
def _tune_frame(offer: Tuning) -> bytes:
    return methods.encode(methods.make(commands.Connection.Tune, **offer._asdict()), 0)


def _capabilities(client_properties: Table) -> dict[str, bool]:
    claimed = client_properties.get("capabilities")
    if not isinstance(claimed, dict):
        return {}
    return {name: value for name, value in claimed.items() if isinstance(value, bool)}


def _log_in(connection: Connection, credentials: Credentials) -> User | None:
    """The user, if the credentials are valid and the user may connect from this address; otherwise None."""
    users, host = connection.broker.users, connection.peer.host
    failures = connection.broker.login_failures
    if credentials.password is None:
        user = users.get(credentials.user)
    else:
        user = users.authenticate(credentials.user, credentials.password)
    if user is None:
        problem = "invalid credentials"
    elif user.name in connection.settings.loopback_users and not connection.peer.is_loopback:
        problem = "can only connect via localhost"
    else:
        connection.broker.login_attempts.count(AMQP, host, user.name, succeeded=True)
        failures.forgive(host, user.name)
        return user
    if credentials.password is not None:
        failures.add(host, credentials.user)
    _note_refusal(connection, credentials.user, problem)
    return None


def _note_refusal(connection: Connection, user: str, problem: str) -> None:
    """Count a failed login, and log it once per burst."""
    host = connection.peer.host
    connection.broker.login_attempts.count(AMQP, host, user, succeeded=False)
    if connection.broker.login_failures.may_log(host, user, problem):
        log.warning(
            "connection %s: %s login refused: user %r - %s",
            connection.name,
            connection.mechanism,
            user[:MAX_SAID],
            problem,
        )


def _refuse_unchecked(connection: Connection, user: str) -> None:
    """Refuse a login without checking it, after a delay, because too many passwords were wrong."""
    _note_refusal(connection, user, "too many failed logins, no password is checked for a while")
    connection.state = State.CLOSING  # ignore input meanwhile

    def refuse() -> None:
        if connection.state is State.CLOSING:  # still connected
            connection.state = State.AWAIT_START_OK
            _refuse_login(connection)

    connection.turn.at(REFUSAL_DELAY_MS, refuse)


def _refuse_login(connection: Connection) -> None:
    """Refuse a login. spec: close the socket; parity: send connection.close first if the client supports it."""
    if connection.capabilities.get("authentication_failure_close"):
        connection.close(
            access_refused(
                f"Login was refused using authentication mechanism {connection.mechanism}. "
                "For details see the broker logfile."
            )
        )
    else:
        connection.finish_close()


def _offer(connection: Connection) -> Tuning:
    settings = connection.settings
    return Tuning(channel_max=settings.channel_max, frame_max=settings.frame_max, heartbeat=settings.heartbeat)


def tune_ok(connection: Connection, method: commands.Connection.TuneOk) -> None:
    following = next_state(connection.state, method)
    answer = Tuning(channel_max=method.channel_max, frame_max=method.frame_max, heartbeat=method.heartbeat)
    agreed = handshake.negotiate(_offer(connection), answer)
    connection.channel_max = agreed.channel_max
    connection.frame_max = agreed.frame_max
    # parity: the client's frames may exceed frame_max by the overhead, the broker's may not.
    connection.payload_max = agreed.frame_max
    connection.outlet.payload_max = agreed.frame_max - FRAME_OVERHEAD
    connection.heartbeat = agreed.heartbeat
    connection.wire.start_heartbeat(agreed.heartbeat)
    connection.state = following


def open_(connection: Connection, method: commands.Connection.Open) -> None:
    following = next_state(connection.state, method)
    connection.enter(_find_vhost(connection, method.virtual_host))
    connection.state = following
    connection.broker.churn.connections_created += 1
    connection.put(_OPEN_OK)


def _find_vhost(connection: Connection, name: str) -> Vhost:
    """The vhost that a client requests; 530 if it does not exist, access is denied, or a limit is reached."""
    broker, most = connection.broker, connection.settings.connection_max
    if most != 0 and len(broker.connections) > most:
        raise not_allowed(f"connection refused: node connection limit ({most}) is reached")
    vhost = broker.vhosts.get(name)
    if vhost is None:
        raise not_allowed(f"vhost {name} not found")
    assert connection.user is not None
    # parity: limits before permissions; the user's current limits apply, and none after the user is deleted.
    user = broker.users.get(connection.user.name) or connection.user
    broker.usage.check_connection(user, vhost)
    broker.permissions.check_vhost(user.name, name)
    log.info(
        "connection %s: user '%s' authenticated and granted access to vhost '%s'",
        connection.name,
        connection.user.name,
        name,
    )
    return vhost


def update_secret(connection: Connection, method: commands.Connection.UpdateSecret) -> None:
    """Accept a new secret for a login that may expire.

    parity: passwords stored here do not expire, so any secret is accepted; but the user's permissions are checked
    again.
    """
    next_state(connection.state, method)
    assert connection.user is not None
    assert connection.vhost is not None
    name = connection.user.name
    user = connection.broker.users.get(name)
    if user is None:
        raise not_allowed("New secret was refused by one of the backends")
    connection.broker.permissions.check_vhost(name, connection.vhost.name)
    connection.user = user
    for channel in connection.channels.values():
        assert isinstance(channel, Channel)
        channel.origin.user = user
    _cancel_forbidden_consumers(connection)
    connection.send(methods.make(commands.Connection.UpdateSecretOk))
    log.info("connection %s: user '%s' updated secret, reason: %r", connection.name, name, method.reason)


def _cancel_forbidden_consumers(connection: Connection) -> None:
    """Cancel the consumers whose queue the user may no longer read."""
    for channel in connection.channels.values():
        assert isinstance(channel, Channel)
        for consumer in list(channel.consumers.values()):
            try:
                channel.permit("read", "queue", consumer.queue.name)
            except AmqpError:
                consumer.queue.cancel_consumer(consumer)


def close(connection: Connection, method: commands.Connection.Close) -> None:
    following = next_state(connection.state, method)
    if following is State.CLOSED:
        # parity: delete exclusive queues before close-ok, because the client may declare them again at once.
        connection.release(partial(_answer_close, connection))
    else:
        connection.put(_CLOSE_OK)


def _answer_close(connection: Connection) -> None:
    connection.put(_CLOSE_OK)
    connection.finish_close(by_client=True)


def close_ok(connection: Connection, method: commands.Connection.CloseOk) -> None:
    if next_state(connection.state, method) is State.CLOSED:
        connection.finish_close()


def refuse(connection: Connection, method: Frame) -> None:
    """Raise 504 for a method that only servers send or an unexpected answer, unless the connection is closing."""
    next_state(connection.state, method)


HANDLERS: dict[int, Callable[[Connection, Any], None]] = {
    commands.Connection.Start.index: refuse,
    commands.Connection.StartOk.index: start_ok,
    commands.Connection.Secure.index: refuse,
    commands.Connection.SecureOk.index: refuse,
    commands.Connection.Tune.index: refuse,
    commands.Connection.TuneOk.index: tune_ok,
    commands.Connection.Open.index: open_,
    commands.Connection.OpenOk.index: refuse,
    commands.Connection.Close.index: close,
    commands.Connection.CloseOk.index: close_ok,
    commands.Connection.Blocked.index: refuse,
    commands.Connection.Unblocked.index: refuse,
    commands.Connection.UpdateSecret.index: update_secret,
    commands.Connection.UpdateSecretOk.index: refuse,
}
