"""From the first octet to connection.open-ok: headers, mechanisms, tuning, heartbeats, vhosts (items 21-38, 40)."""

import logging
import re

import pytest
from pamqp import base, commands
from pamqp.header import ProtocolHeader

from rabbitlike.protocol.constants import FRAME_OVERHEAD
from rabbitlike.server.heartbeat import Heartbeat
from rabbitlike.testing import FakeClock
from tests.support import frames
from tests.support.frames import PROTOCOL_HEADER, Typed, encode_method, frame, longstr, shortstr, table
from tests.support.pair import Client, Cut, Pair, bytewise, loose, random_cuts, whole

REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism {}. For details see the broker logfile."
CUTS = pytest.mark.parametrize("cut", [whole, bytewise, random_cuts(3)], ids=["whole", "bytewise", "random"])


def start(pair: Pair, **dial: object) -> Client:
    client = pair.dial(**dial)  # type: ignore[arg-type]
    client.feed(PROTOCOL_HEADER)
    client.expect(commands.Connection.Start)
    return client


def expect_dropped(pair: Pair, client: Client) -> None:
    """No frame, and within the few seconds that slow a guesser down no socket."""
    client.expect_nothing()
    pair.advance(5_000)
    client.expect_gone()


# ---------------------------------------------------------------------------------------------- protocol header


@CUTS
@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"AMQP\x02\x01\x00\x00",
        b"AMQP\x00\x00\x09\x00",
        b"AMQP\x00\x00\x09\x02",
        b"AMQP\x09\x09\x09\x09",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x00\x00\x00\x00\x00\x00\x00",
        b"AMQQ\x00\x00\x09\x01",
    ],
)
def test_bad_protocol_header(pair: Pair, header: bytes, cut: Cut) -> None:
    """#21 Anything but the header is answered by the header, and the socket is closed; no connection.close."""
    client = pair.dial()
    client.feed(header, cut)
    answer = client.take()
    assert answer is not None
    assert isinstance(answer.frame, ProtocolHeader)
    assert bytes(client.raw) == PROTOCOL_HEADER
    client.expect_gone()
    pair.connect().expect_alive()


@pytest.mark.parametrize(
    ("first", "word"), [(b"GET / HTTP/1.1\r\n\r\n", "HTTP"), (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS")]
)
def test_bad_header_is_explained_in_the_log(
    pair: Pair, first: bytes, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    """#21 A browser and a TLS client on the plain port get a helpful line."""
    with caplog.at_level(logging.DEBUG):
        pair.dial().feed(first)
    assert any(word in record.getMessage() for record in caplog.records)


@CUTS
def test_good_header(pair: Pair, cut: Cut) -> None:
    """#21 The header gets connection.start, however it is cut."""
    client = pair.dial()
    client.feed(PROTOCOL_HEADER, cut)
    client.expect(commands.Connection.Start)
    client.expect_nothing()


@CUTS
def test_header_of_0_9(pair: Pair, cut: Cut) -> None:
    """#21 parity: the header of AMQP 0-9 is taken for 0-9-1."""
    client = pair.dial()
    client.feed(b"AMQP\x01\x01\x00\x09", cut)
    client.expect(commands.Connection.Start)


def test_half_a_header_waits(pair: Pair) -> None:
    """#21 Part of a header is neither right nor wrong yet; a client that says no more is dropped in the end."""
    client = pair.dial()
    client.feed(PROTOCOL_HEADER[:7])
    client.expect_nothing()
    assert not client.wire.is_gone
    client.feed(PROTOCOL_HEADER[7:])
    client.expect(commands.Connection.Start)


@CUTS
def test_whole_handshake_in_any_cut(cut: Cut) -> None:
    """#21 #22 The opening works however the network cuts it, and when a client sends it all at once."""
    pair = Pair(cut=cut)
    pair.connect().expect_alive()
    eager = pair.dial()
    eager.feed(
        PROTOCOL_HEADER
        + encode_method(loose(commands.Connection.StartOk, client_properties={}, response=longstr("\0guest\0guest")), 0)
        + encode_method(commands.Connection.TuneOk(channel_max=10, frame_max=4096, heartbeat=5), 0)
        + encode_method(commands.Connection.Open(), 0)
        + encode_method(commands.Channel.Open(), 1)
    )
    eager.expect(commands.Connection.Start)
    eager.expect(commands.Connection.Tune)
    eager.expect(commands.Connection.OpenOk)
    eager.expect(commands.Channel.OpenOk, 1)
    eager.expect_nothing()


# ------------------------------------------------------------------------------------------------------- start


def test_connection_start(pair: Pair) -> None:
    """#22 Version 0-9, locale en_US, mechanisms apart by single spaces."""
    client = pair.dial()
    client.feed(PROTOCOL_HEADER)
    hello = client.expect(commands.Connection.Start)
    assert (hello.version_major, hello.version_minor) == (0, 9)
    assert hello.locales == "en_US"
    assert hello.mechanisms == "PLAIN AMQPLAIN"


def test_external_is_offered_to_a_certificate(pair: Pair) -> None:
    """#22 EXTERNAL is offered to a client that has shown a certificate, and to no other."""
    client = pair.dial(tls=True, certificate_name="alice")
    client.feed(PROTOCOL_HEADER)
    assert "EXTERNAL" in client.expect(commands.Connection.Start).mechanisms.split(" ")
    bare = pair.dial(tls=True)
    bare.feed(PROTOCOL_HEADER)
    assert bare.expect(commands.Connection.Start).mechanisms == "PLAIN AMQPLAIN"


def server_properties(pair: Pair) -> dict[str, object]:
    client = pair.dial()
    client.feed(PROTOCOL_HEADER)
    return dict(client.expect(commands.Connection.Start).server_properties)


def test_server_properties(pair: Pair) -> None:
    """#23 #24 Capabilities are a table of bools, complete; the rest are the strings clients look at."""
    properties = server_properties(pair)
    assert properties["capabilities"] == {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }
    for name in ("product", "version", "platform", "cluster_name", "copyright", "information"):
        assert isinstance(properties[name], str), name
        assert properties[name], name


def test_product_and_version() -> None:
    """#25 They are a behaviour switch of clients, hence settings; the defaults make Celery use global prefetch."""
    properties = server_properties(Pair())
    assert (properties["product"], properties["version"]) == ("RabbitMQ", "3.13.7")
    properties = server_properties(Pair(product="Other", version="9.9", cluster_name="here"))
    assert (properties["product"], properties["version"], properties["cluster_name"]) == ("Other", "9.9", "here")


# ------------------------------------------------------------------------------------------------------- login


@pytest.mark.parametrize("mechanism", ["FOO", "", "plain", "EXTERNAL", "ANONYMOUS"])
def test_unknown_mechanism(pair: Pair, mechanism: str) -> None:
    """#26 A mechanism that was not offered is 503, said in a close frame."""
    client = start(pair)
    client.start_ok(mechanism, "")
    text = f"COMMAND_INVALID - unknown authentication mechanism '{mechanism}'"
    client.expect_close(503, text, commands.Connection.StartOk)


@pytest.mark.parametrize(
    "response",
    ["", "guest", "\0guest", "guest\0guest", "guest\0guest\0guest", "\0guest\0gue\0st", "\0guest\0guest\0"],
)
def test_malformed_plain(pair: Pair, response: str) -> None:
    """#26 #27 PLAIN is NUL user NUL password with nothing before the first NUL; anything else is 502."""
    client = start(pair)
    client.start_ok("PLAIN", response)
    client.expect_close(502, re.compile("SYNTAX_ERROR - .+"), commands.Connection.StartOk)


@pytest.mark.parametrize("password", ["pässwörd", "a b:c@d/e", " ", "\x01\xff", "x" * 1000])
def test_password_may_be_anything_but_nul(pair: Pair, password: str) -> None:
    """#27 A password is octets; only NUL ends it."""
    pair.add_user("bob", password)
    client = start(pair)
    client.start_ok("PLAIN", f"\0bob\0{password}")
    client.expect(commands.Connection.Tune)
    wrong = start(pair)
    wrong.start_ok("PLAIN", f"\0bob\0{password}x")
    wrong.expect_close(403, REFUSED.format("PLAIN"), None, answer=False)


@pytest.mark.parametrize(
    "fields",
    [
        {"LOGIN": "guest", "PASSWORD": "guest"},
        {"PASSWORD": "guest", "LOGIN": "guest"},
        {"LOGIN": Typed("x", b"guest"), "PASSWORD": Typed("x", b"guest"), "other": 5},
    ],
)
def test_amqplain(pair: Pair, fields: dict[str, object]) -> None:
    """#28 AMQPLAIN is a table without its length."""
    client = start(pair)
    client.start_ok("AMQPLAIN", table(fields)[4:])
    client.expect(commands.Connection.Tune)


@pytest.mark.parametrize(
    "response",
    [
        table({"LOGIN": "guest", "PASSWORD": "guest"}),  # with its length
        table({"LOGIN": "guest"})[4:],
        table({"PASSWORD": "guest"})[4:],
        table({"LOGIN": "guest", "PASSWORD": 5})[4:],
        table({"LOGIN": None, "PASSWORD": "guest"})[4:],
        table({"login": "guest", "password": "guest"})[4:],
        b"",
        b"\xff\xff",
        b"\x05LOGINS\x00\x00\xff\xffguest",
    ],
)
def test_malformed_amqplain(pair: Pair, response: bytes) -> None:
    """#26 #28 LOGIN and PASSWORD must be there and be strings."""
    client = start(pair)
    client.start_ok("AMQPLAIN", response)
    client.expect_close(502, re.compile("SYNTAX_ERROR - .+"), commands.Connection.StartOk)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", "\0guest\0wrong"),
        ("PLAIN", "\0nobody\0guest"),
        ("PLAIN", "\0guest\0"),
        ("PLAIN", "\0\0"),
        ("AMQPLAIN", table({"LOGIN": "guest", "PASSWORD": "wrong"})[4:]),
    ],
)
def test_bad_credentials(pair: Pair, mechanism: str, response: str | bytes) -> None:
    """#29 A client that can take it is told in a close frame, any other loses its socket without a word."""
    client = start(pair)
    client.start_ok(mechanism, response, capabilities=["authentication_failure_close"])
    client.expect_close(403, REFUSED.format(mechanism), None, answer=False)
    pair.advance(30_000)
    client.expect_gone()
    silent = start(pair)
    silent.start_ok(mechanism, response, capabilities=[])
    expect_dropped(pair, silent)


def test_capability_must_be_true(pair: Pair) -> None:
    """#29 authentication_failure_close = false is no capability."""
    client = start(pair)
    client.start_ok(
        "PLAIN", "\0guest\0wrong", client_properties={"capabilities": {"authentication_failure_close": False}}
    )
    expect_dropped(pair, client)


def test_no_second_guess_on_one_connection(pair: Pair) -> None:
    """#29 A refused client cannot try again on the same socket."""
    client = start(pair)
    client.start_ok("PLAIN", "\0guest\0wrong")
    client.expect_close(403, REFUSED.format("PLAIN"), None, answer=False)
    client.start_ok("PLAIN", "\0guest\0guest")
    client.expect_nothing()


@pytest.mark.parametrize("host", ["10.0.0.7", "2001:db8::1"])
def test_guest_is_local_only(pair: Pair, host: str) -> None:
    """#30 guest from elsewhere is refused in the same words as a wrong password."""
    client = start(pair, host=host)
    client.start_ok()
    client.expect_close(403, REFUSED.format("PLAIN"), None, answer=False)
    silent = start(pair, host=host)
    silent.start_ok(capabilities=[])
    expect_dropped(pair, silent)


def test_who_may_come_from_elsewhere() -> None:
    """#30 Other users may, and guest may when the setting says so."""
    pair = Pair()
    pair.add_user("bob", "pw")
    client = start(pair, host="10.0.0.7")
    client.start_ok(response="\0bob\0pw")
    client.expect(commands.Connection.Tune)
    lax = start(Pair(loopback_users=()), host="10.0.0.7")
    lax.start_ok()
    lax.expect(commands.Connection.Tune)
    local = start(Pair(), host="::1")
    local.start_ok()
    local.expect(commands.Connection.Tune)


def test_external_login(pair: Pair) -> None:
    """#22 With EXTERNAL the certificate names the user; one that does not exist is refused."""
    pair.add_user("alice", "unused")
    client = start(pair, tls=True, certificate_name="alice")
    client.start_ok("EXTERNAL", "")
    client.expect(commands.Connection.Tune)
    unknown = start(pair, tls=True, certificate_name="mallory")
    unknown.start_ok("EXTERNAL", "")
    unknown.expect_close(403, REFUSED.format("EXTERNAL"), None, answer=False)


# -------------------------------------------------------------------------------------------------------- tune


def test_tune_offer() -> None:
    """#31 The offer is what the settings say."""
    tune = Pair().dial().login()
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)
    tune = Pair(channel_max=5, frame_max=8192, heartbeat=7).dial().login()
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (5, 8192, 7)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"frame_max": 4095}, "frame_max = 4095 is lower than the minimum allowed value (4096)"),
        ({"frame_max": 1}, "frame_max = 1 is lower than the minimum allowed value (4096)"),
        ({"frame_max": 131073}, "frame_max = 131073 is higher than the maximum allowed value (131072)"),
        ({"frame_max": 0}, "frame_max = 0 is higher than the maximum allowed value (131072)"),
        ({"channel_max": 2048}, "channel_max = 2048 is higher than the maximum allowed value (2047)"),
        ({"channel_max": 65535}, "channel_max = 65535 is higher than the maximum allowed value (2047)"),
        ({"channel_max": 0}, "channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
    ],
)
def test_tune_ok_out_of_bounds(pair: Pair, answer: dict[str, int], text: str) -> None:
    """#31 What leaves the offer is 530."""
    client = pair.dial()
    client.login()
    client.tune(**answer)
    client.expect_close(530, f"NOT_ALLOWED - negotiated {text}", commands.Connection.TuneOk)


def test_tune_ok_at_the_bounds(pair: Pair) -> None:
    """#31 The smallest and the largest answers are fine, and they hold."""
    tiny = pair.connect(frame_max=4096, channel_max=1)
    tiny.channel(1)
    tiny.send(commands.Channel.Open(), 2)
    assert tiny.expect(commands.Connection.Close).reply_code == 530
    pair.connect(frame_max=131072, channel_max=2047).expect_alive()


@pytest.mark.parametrize("heartbeat", [0, 1, 7, 60, 600, 65535])
def test_heartbeat_is_the_clients(pair: Pair, heartbeat: int) -> None:
    """#32 The client's value counts, whatever was offered; 0 is neither way."""
    client = pair.connect(heartbeat=heartbeat)
    assert (client.wire.heartbeat or 0) == heartbeat
    assert client.connection.heartbeat == heartbeat


def test_heartbeat_starts_with_tune_ok(pair: Pair) -> None:
    """#32 Not before."""
    client = pair.dial()
    client.login()
    assert client.wire.heartbeat is None
    client.tune(heartbeat=9)
    assert client.wire.heartbeat == 9


class Beats:
    """One Heartbeat with its clock, and when it sent and dropped, in ms since the start."""

    def __init__(self, seconds: int) -> None:
        self.clock = FakeClock(now_ms=0)
        self.sent: list[int] = []
        self.dropped: list[int] = []
        self.heartbeat = Heartbeat(
            self.clock, lambda: self.sent.append(self.clock.now_ms()), lambda: self.dropped.append(self.clock.now_ms())
        )
        self.heartbeat.start(seconds)

    def live(self, until_ms: int, every_ms: int) -> None:
        """The peer sends an octet now and then."""
        while self.clock.now_ms() < until_ms:
            self.heartbeat.received += 1
            self.clock.advance(every_ms)


def test_heartbeat_frame(pair: Pair) -> None:
    """#33 A heartbeat is an empty frame of type 8 on channel 0."""
    client = pair.connect(heartbeat=10)
    client.raw.clear()
    client.connection.send_heartbeat()
    client.take_all()
    assert bytes(client.raw) == frames.HEARTBEAT_FRAME


def test_heartbeats_are_sent_each_half_interval() -> None:
    """#33 Each timeout/2 in which nothing was written."""
    beats = Beats(10)
    beats.live(until_ms=20_000, every_ms=1000)
    assert beats.sent == [5000, 10_000, 15_000, 20_000]
    beats.heartbeat.written += 100
    beats.clock.advance(5000)
    assert beats.sent[-1] == 20_000, "other octets are as good as a heartbeat"
    beats.heartbeat.received += 1
    beats.clock.advance(5000)
    assert beats.sent[-1] == 30_000


def test_silence_ends_the_connection() -> None:
    """#33 Two checks without an octet end it, after two to three intervals; the socket is dropped without a word."""
    beats = Beats(10)
    beats.clock.advance(60_000)
    assert len(beats.dropped) == 1
    assert 20_000 <= beats.dropped[0] <= 30_000
    alive = Beats(10)
    alive.live(until_ms=25_000, every_ms=5000)
    alive.clock.advance(60_000)
    assert 45_000 <= alive.dropped[0] <= 55_000


def test_any_octet_is_life() -> None:
    """#33 One octet per interval is enough."""
    beats = Beats(10)
    beats.live(until_ms=200_000, every_ms=9_999)
    assert beats.dropped == []


def test_no_heartbeat() -> None:
    """#32 #33 0 disables both directions."""
    beats = Beats(0)
    beats.clock.advance(10_000_000)
    assert (beats.sent, beats.dropped) == ([], [])


def test_heartbeat_check_pauses_with_reading() -> None:
    """#34 Nobody is given up for silence while the server itself does not read; heartbeats still go out."""
    beats = Beats(10)
    beats.heartbeat.pause()
    beats.clock.advance(100_000)
    assert beats.dropped == []
    assert len(beats.sent) == 20
    beats.heartbeat.resume()
    beats.clock.advance(19_000)
    assert beats.dropped == [], "a fresh start: the peer gets its two intervals again"
    beats.clock.advance(20_000)
    assert len(beats.dropped) == 1


def start_ok_of(size: int) -> bytes:
    """connection.start-ok with a payload of exactly so many octets."""
    fixed = len(encode_start_ok("")) - FRAME_OVERHEAD
    return encode_start_ok("x" * (size - fixed))


def encode_start_ok(token: str) -> bytes:
    method = loose(
        commands.Connection.StartOk,
        client_properties={"token": token},
        mechanism="PLAIN",
        response=longstr("\0guest\0guest"),
        locale="en_US",
    )
    return encode_method(method, 0)


def test_big_start_ok(pair: Pair) -> None:
    """#35 4096 octets before tune: of payload, since clients are off by a frame's overhead."""
    client = start(pair)
    client.feed(start_ok_of(4096))
    client.expect(commands.Connection.Tune)


@pytest.mark.parametrize("size", [4097, 8000, 8193])
def test_oversize_before_tune(pair: Pair, size: int) -> None:
    """#35 But not more, whatever will be negotiated later."""
    client = start(pair)
    client.feed(start_ok_of(size))
    assert client.expect(commands.Connection.Close).reply_code == 501
    pair.advance(5_000)
    assert client.wire.is_gone


# -------------------------------------------------------------------------------------------------------- open


def open_vhost(pair: Pair, vhost: str, user: str = "guest", password: str = "guest") -> Client:
    client = pair.dial()
    client.login(user, password)
    client.tune()
    client.send(loose(commands.Connection.Open, virtual_host=vhost))
    return client


@pytest.mark.parametrize("vhost", ["nope", "", "//", "/ "])
def test_missing_vhost(pair: Pair, vhost: str) -> None:
    """#36 #37 530, with the name as it came; the empty name is not the default vhost."""
    client = open_vhost(pair, vhost)
    client.expect_close(530, f"NOT_ALLOWED - vhost {vhost} not found", commands.Connection.Open)


def test_forbidden_vhost(pair: Pair) -> None:
    """#36 530 as well, not 403."""
    pair.add_user("bob", "pw", vhost=None)
    client = open_vhost(pair, "/", "bob", "pw")
    client.expect_close(530, "NOT_ALLOWED - access to vhost '/' refused for user 'bob'", commands.Connection.Open)
    missing = open_vhost(pair, "nope", "bob", "pw")
    missing.expect_close(530, "NOT_ALLOWED - vhost nope not found", commands.Connection.Open)


def test_too_many_connections() -> None:
    """#36 Over a limit is 530."""
    pair = Pair(connection_max=2)
    first, _ = pair.connect(), pair.connect()
    client = open_vhost(pair, "/")
    client.expect_close(530, re.compile("NOT_ALLOWED - .*limit.*"), commands.Connection.Open)
    first.close()
    pair.connect().expect_alive()


def test_default_vhost(pair: Pair) -> None:
    """#37 It is /."""
    client = open_vhost(pair, "/")
    client.expect(commands.Connection.OpenOk)
    client.expect_alive()


def test_vhosts_are_apart(pair: Pair) -> None:
    """#37 The same name in two vhosts is two queues."""
    pair.broker.add_vhost("other")
    pair.add_user("bob", "pw", vhost="other")
    here, there = pair.connect().channel(), pair.connect("bob", "pw", "other").channel()
    here.declare("q", durable=True)
    there.declare("q", durable=False)
    here.publish(b"here", key="q")
    assert there.drain("q") == []
    assert here.drain("q") == [b"here"]


@pytest.mark.parametrize(
    "method",
    [commands.Connection.TuneOk(1, 4096, 0), commands.Connection.Open(), commands.Queue.Declare(queue="q")],
    ids=lambda method: method.name,
)
def test_methods_out_of_order(pair: Pair, method: base.Frame) -> None:
    """#26 A method that is not due yet ends the opening: a close frame with 503 to 505, or just the socket."""
    client = start(pair)
    client.send(method)
    item = client.take()
    if item is not None:
        assert isinstance(item.frame, commands.Connection.Close)
        assert item.frame.reply_code in (503, 504, 505)
    client.expect_nothing()
    pair.advance(30_000)
    client.expect_gone()


@pytest.mark.parametrize("step", ["header", "start", "tune", "tuned"])
def test_channel_before_open(pair: Pair, step: str) -> None:
    """#7 No channel exists before the connection is open."""
    client = pair.dial()
    if step != "header":
        client.feed(PROTOCOL_HEADER)
        client.expect(commands.Connection.Start)
    if step in ("tune", "tuned"):
        client.start_ok()
        client.expect(commands.Connection.Tune)
    if step == "tuned":
        client.tune()
    client.feed(encode_method(commands.Channel.Open(), 1))
    pair.advance(30_000)
    assert client.wire.is_gone
    for item in client.take_all():
        assert isinstance(item.frame, (commands.Connection.Close, ProtocolHeader))


@pytest.mark.parametrize("kind", [2, 3, 5])
def test_odd_frames_before_open(pair: Pair, kind: int) -> None:
    """#3 #10 Frames of other kinds during the opening end it."""
    client = start(pair)
    client.feed(frame(kind, 0, b"whatever is in here"))
    pair.advance(30_000)
    assert client.wire.is_gone
    for item in client.take_all():
        assert isinstance(item.frame, commands.Connection.Close)
        assert item.frame.reply_code in (501, 505)


# ----------------------------------------------------------------------------------- closed by somebody else


def test_deleted_vhost(pair: Pair) -> None:
    """#38 Its connections are closed with 320, others live."""
    pair.broker.add_vhost("v")
    pair.add_user("bob", "pw", vhost="v")
    inside, outside = pair.connect("bob", "pw", "v"), pair.connect()
    pair.broker.delete_vhost("v")
    pair.settle()
    inside.expect_close(320, "CONNECTION_FORCED - vhost 'v' is deleted", None)
    outside.expect_alive()
    gone = open_vhost(pair, "v", "bob", "pw")
    gone.expect_close(530, "NOT_ALLOWED - vhost v not found", commands.Connection.Open)


def test_deleted_user(pair: Pair) -> None:
    """#38 The user's connections are closed with 320, others live."""
    pair.add_user("bob", "pw")
    theirs, other = pair.connect("bob", "pw"), pair.connect()
    pair.broker.delete_user("bob")
    pair.settle()
    theirs.expect_close(320, "CONNECTION_FORCED - user 'bob' is deleted", None)
    other.expect_alive()
    again = start(pair)
    again.start_ok(response="\0bob\0pw")
    again.expect_close(403, REFUSED.format("PLAIN"), None, answer=False)


def test_operator_close(pair: Pair) -> None:
    """#38 320 with the reason given."""
    client, other = pair.connect(), pair.connect()
    client.connection.shutdown(320, "because")
    pair.settle()
    client.expect_close(320, "CONNECTION_FORCED - because", None)
    other.expect_alive()


# ----------------------------------------------------------------------------------------------- update-secret


def test_update_secret(pair: Pair) -> None:
    """#40 A good new secret is answered, and the connection goes on."""
    client = pair.connect()
    client.send(commands.Connection.UpdateSecret("guest", "rotation"))
    client.expect(commands.Connection.UpdateSecretOk)
    client.expect_alive()


def test_update_secret_refused(pair: Pair) -> None:
    """#40 530 when nobody vouches for the user any more. parity: to passwords kept here any secret is as good."""
    pair.add_user("bob", "pw")
    client = pair.connect("bob", "pw")
    client.send(commands.Connection.UpdateSecret("another", "rotation"))
    client.expect(commands.Connection.UpdateSecretOk)
    pair.broker.users.delete("bob")
    client.send(commands.Connection.UpdateSecret("pw", "rotation"))
    client.expect_close(
        530, "NOT_ALLOWED - New secret was refused by one of the backends", commands.Connection.UpdateSecret
    )


def test_update_secret_after_loss_of_permission(pair: Pair) -> None:
    """#40 Consumers that may no longer read are cancelled, the others stay."""
    pair.add_user("bob", "pw")
    mine = pair.connect("bob", "pw")
    ch, owner = mine.channel(), pair.connect().channel()
    owner.declare("open")
    owner.declare("shut")
    ch.consume("open", "a")
    ch.consume("shut", "b")
    pair.add_user("bob", "pw", read="^open$")
    mine.send(commands.Connection.UpdateSecret("pw", "rotation"))
    mine.expect(commands.Connection.UpdateSecretOk)
    cancel = ch.expect(commands.Basic.Cancel)
    assert (cancel.consumer_tag, cancel.nowait) == ("b", True)
    owner.publish(b"1", key="open")
    owner.publish(b"2", key="shut")
    assert ch.bodies() == [b"1"]


def test_client_properties_are_kept(pair: Pair) -> None:
    """#23 What the client says of itself is there to be shown, whatever types it uses."""
    client = pair.connect(
        client_properties={"connection_name": "mine", "n": Typed("l", 5), "deep": {"er": [1, True, None, {"x": 1.5}]}}
    )
    assert client.connection.client_properties["connection_name"] == "mine"
    client.expect_alive()


def test_bad_table_in_start_ok(pair: Pair) -> None:
    """#6 #26 Client properties that cannot be read end the opening with 501 or without a word."""
    client = start(pair)
    client.feed(
        frames.method_frame(
            0, 10, 11, longstr(b"\x01aZ"), shortstr("PLAIN"), longstr("\0guest\0guest"), shortstr("en_US")
        )
    )
    pair.advance(30_000)
    assert client.wire.is_gone
    for item in client.take_all():
        assert isinstance(item.frame, commands.Connection.Close)
        assert item.frame.reply_code == 501
