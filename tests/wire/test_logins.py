"""Failed logins: how many an address has, what the client sees beyond them, and what is logged."""

import logging

import pytest
from pamqp import commands

from rabbitlike.broker.accounts.login_attempts import AMQP
from rabbitlike.broker.accounts.login_failures import (
    LINES_PER_ADDRESS,
    TRIES_PER_ADDRESS,
    TRIES_PER_USER,
    USER_REFILL_MS,
)
from rabbitlike.session.handlers.connection import REFUSAL_DELAY_MS
from tests.support.frames import PROTOCOL_HEADER, table
from tests.support.pair import Client, Pair

REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
ATTACKER = "192.0.2.1"


@pytest.fixture
def pair() -> Pair:
    pair = Pair()
    pair.add_user("bob", "pw")
    pair.add_user("eve", "pw")
    return pair


def attempt(pair: Pair, user: str, password: str, host: str = ATTACKER) -> Client:
    client = pair.dial(host=host)
    client.feed(PROTOCOL_HEADER)
    client.expect(commands.Connection.Start)
    client.start_ok("PLAIN", f"\0{user}\0{password}", capabilities=["authentication_failure_close"])
    return client


def expect_refused(client: Client) -> None:
    client.expect_close(403, REFUSED, None)
    client.expect_gone()


def use_up_tries(pair: Pair, user: str = "bob") -> None:
    for _ in range(TRIES_PER_USER):
        expect_refused(attempt(pair, user, "wrong"))


def test_beyond_the_tries_no_password_is_checked(pair: Pair) -> None:
    """Not even the right one, or guessing would go on; and the answer, in the same words, is slow."""
    use_up_tries(pair)
    client = attempt(pair, "bob", "pw")
    client.expect_nothing()
    pair.advance(REFUSAL_DELAY_MS - 1)
    client.expect_nothing()
    pair.advance(1)
    expect_refused(client)
    pair.advance(USER_REFILL_MS)
    attempt(pair, "bob", "pw").expect(commands.Connection.Tune)


def test_nobody_else_is_concerned(pair: Pair) -> None:
    use_up_tries(pair)
    attempt(pair, "bob", "pw", host="192.0.2.2").expect(commands.Connection.Tune)
    attempt(pair, "eve", "pw").expect(commands.Connection.Tune)


def test_the_right_password_gives_tries_back(pair: Pair) -> None:
    for _ in range(TRIES_PER_USER - 1):
        expect_refused(attempt(pair, "bob", "wrong"))
    attempt(pair, "bob", "pw").expect(commands.Connection.Tune)
    use_up_tries(pair)


def test_a_refusal_that_waits_hears_nothing(pair: Pair) -> None:
    """Neither another try on the same socket, however many, nor anything else; nor is a client missed that hangs up."""
    use_up_tries(pair)
    client = attempt(pair, "bob", "wrong")
    for _ in range(3):
        client.start_ok("PLAIN", "\0eve\0pw")
        client.tune()
        client.send(commands.Connection.Open(virtual_host="/"))
    client.expect_nothing()
    pair.advance(REFUSAL_DELAY_MS)
    expect_refused(client)
    gone = attempt(pair, "bob", "wrong")
    gone.drop()
    pair.advance(REFUSAL_DELAY_MS)
    assert pair.broker.connections == set()


def test_a_client_that_takes_no_reason_is_dropped_as_late(pair: Pair) -> None:
    use_up_tries(pair)
    client = pair.dial(host=ATTACKER)
    client.feed(PROTOCOL_HEADER)
    client.expect(commands.Connection.Start)
    client.start_ok("AMQPLAIN", table({"LOGIN": "bob", "PASSWORD": "pw"})[4:], capabilities=[])
    pair.advance(REFUSAL_DELAY_MS - 1)
    assert not client.wire.is_gone
    pair.advance(1)
    client.expect_nothing()
    client.expect_gone()


def test_certificates_need_no_tries(pair: Pair) -> None:
    use_up_tries(pair)
    client = pair.dial(host=ATTACKER, tls=True, certificate_name="bob")
    client.feed(PROTOCOL_HEADER)
    client.expect(commands.Connection.Start)
    client.start_ok("EXTERNAL", "")
    client.expect(commands.Connection.Tune)


def test_many_names_from_one_address(pair: Pair) -> None:
    """They run out as well, but not for who has logged in from there before."""
    attempt(pair, "eve", "pw").expect(commands.Connection.Tune)
    for number in range(TRIES_PER_ADDRESS):
        expect_refused(attempt(pair, f"user{number}", "x"))
    attempt(pair, "bob", "pw").expect_nothing()
    attempt(pair, "eve", "pw").expect(commands.Connection.Tune)


def test_guesses_are_logged_once_and_all_counted(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(200):
        attempt(pair, "bob" + "b" * 100, "wrong")
    (total,) = pair.broker.login_attempts.totals()
    assert (total.protocol, total.failed, total.succeeded) == (AMQP, 200, 0)
    lines = [record.getMessage() for record in caplog.records if "login refused" in record.getMessage()]
    said = f"PLAIN login refused: user '{'bob' + 'b' * 61}' - "
    assert [line.partition(": ")[2] for line in lines] == [
        said + "invalid credentials",
        said + "too many failed logins, no password is checked for a while",
    ]
    caplog.clear()
    for number in range(TRIES_PER_ADDRESS):
        attempt(pair, f"user{number}", "wrong", host="192.0.2.3")
    assert caplog.text.count("login refused") == LINES_PER_ADDRESS
