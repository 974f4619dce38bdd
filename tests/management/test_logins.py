"""Who is let in: passwords, tags, addresses, and how often one may try."""

import base64
import logging

import pytest

from rabbitlike.broker.accounts import login_failures as logins
from rabbitlike.broker.accounts.login_failures import (
    KEPT,
    LINE_REFILL_MS,
    LINES_PER_ADDRESS,
    TRIES_PER_ADDRESS,
    TRIES_PER_USER,
    USER_REFILL_MS,
    LoginFailures,
    source,
)
from rabbitlike.testing import FakeClock
from tests.support.api import Api
from tests.support.frames import PROTOCOL_HEADER

FAILED = {"error": "not_authorized", "reason": "Login failed"}
PATH = "/api/whoami"


async def test_nobody_gets_in_without_a_password(api: Api) -> None:
    for client in (api.stranger(), api.login("guest", "wrong"), api.login("nobody", "guest"), api.login("guest", "")):
        answer = await client.get(PATH)
        assert (answer.status_code, answer.json()) == (401, FAILED)
        # parity: as in 3.13, a browser asks for a password only where none was sent; a page says that one is wrong.
        asked = answer.headers.get("www-authenticate", "").startswith("Basic realm=")
        assert asked == ("authorization" not in answer.request.headers)


@pytest.mark.parametrize(
    "header", ["Bearer x", "Basic", "Basic !", "Basic " + base64.b64encode(b"guest").decode(), "Basic /w=="]
)
async def test_credentials_that_cannot_be_read(api: Api, header: str) -> None:
    answer = await api.stranger().get(PATH, headers={"Authorization": header})
    assert (answer.status_code, answer.json()) == (401, FAILED)


async def test_a_user_needs_a_tag(api: Api) -> None:
    answer = await api.user("plain", []).get(PATH)
    assert (answer.status_code, answer.json()["reason"]) == (401, "Not management user")


async def test_guest_is_let_in_from_this_machine_alone(api: Api) -> None:
    for host in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"):
        assert (await api.login("guest", "guest", host).get(PATH)).status_code == 200, host
    api.user("bob")
    for host in ("192.0.2.1", "2001:db8::1", "", "unix"):
        answer = await api.login("guest", "guest", host).get(PATH)
        assert (answer.status_code, answer.json()["reason"]) == (401, "User can only log in via localhost"), host
        assert (await api.login("bob", "pw", host).get(PATH)).status_code == 200


async def test_headers_do_not_make_an_address(api: Api) -> None:
    far = api.login("guest", "guest", "192.0.2.1")
    for name in ("X-Forwarded-For", "X-Real-IP", "Forwarded"):
        assert (await far.get(PATH, headers={name: "127.0.0.1"})).status_code == 401


async def test_wrong_passwords_run_out(api: Api) -> None:
    api.user("bob")
    for _ in range(TRIES_PER_USER):
        assert (await api.login("bob", "wrong", "192.0.2.1").get(PATH)).status_code == 401
    answer = await api.login("bob", "pw", "192.0.2.1").get(PATH)
    assert (answer.status_code, answer.json()["error"]) == (429, "too_many_requests")
    assert answer.headers["retry-after"] == str(USER_REFILL_MS // 1000)
    # Nobody else is concerned: neither the same user elsewhere nor others there.
    assert (await api.login("bob", "pw", "192.0.2.2").get(PATH)).status_code == 200
    api.user("eve")
    assert (await api.login("eve", "pw", "192.0.2.1").get(PATH)).status_code == 200
    api.pair.clock.advance(USER_REFILL_MS)
    assert (await api.login("bob", "pw", "192.0.2.1").get(PATH)).status_code == 200
    for _ in range(TRIES_PER_USER):  # the right password has made up for the wrong ones
        assert (await api.login("bob", "wrong", "192.0.2.1").get(PATH)).status_code == 401


async def test_a_stranger_cannot_lock_guest_out(api: Api) -> None:
    for _ in range(TRIES_PER_ADDRESS):
        await api.login("guest", "guest", "192.0.2.1").get(PATH)
    assert (await api.get(PATH)).status_code == 200


async def test_trying_many_names_runs_out_too(api: Api) -> None:
    for at in range(TRIES_PER_ADDRESS):
        assert (await api.login(f"user{at}", "x", "192.0.2.1").get(PATH)).status_code == 401
    assert (await api.login("another", "x", "192.0.2.1").get(PATH)).status_code == 429


async def test_whoever_was_let_in_before_keeps_its_tries(api: Api) -> None:
    """Names tried from an address that others use as well, a proxy's or this machine's, do not lock those out."""
    api.user("bob")
    assert (await api.login("bob", "pw", "192.0.2.1").get(PATH)).status_code == 200
    for at in range(TRIES_PER_ADDRESS):
        await api.login(f"user{at}", "x", "192.0.2.1").get(PATH)
    assert (await api.login("eve", "x", "192.0.2.1").get(PATH)).status_code == 429
    assert (await api.login("bob", "pw", "192.0.2.1").get(PATH)).status_code == 200
    for _ in range(TRIES_PER_USER):
        assert (await api.login("bob", "x", "192.0.2.1").get(PATH)).status_code == 401
    assert (await api.login("bob", "pw", "192.0.2.1").get(PATH)).status_code == 429


async def test_failed_logins_are_logged_once_in_a_burst(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(50):
        await api.login("bob", "wrong", "192.0.2.1").get(PATH)
    assert caplog.text.count("user 'bob' from 192.0.2.1: login failed") == 1
    assert caplog.text.count("too many failed logins, no password is checked for 6 s") == 1
    caplog.clear()
    for at in range(TRIES_PER_ADDRESS):
        await api.login(f"user{at}", "wrong", "192.0.2.2").get(PATH)
    assert caplog.text.count("from 192.0.2.2") == LINES_PER_ADDRESS
    caplog.clear()
    api.pair.clock.advance(LINE_REFILL_MS)
    await api.login("bob", "wrong", "192.0.2.1").get(PATH)
    assert caplog.text.count("user 'bob' from 192.0.2.1: login failed") == 1


async def test_amqp_and_http_count_together(api: Api) -> None:
    api.user("bob")
    for _ in range(TRIES_PER_USER):
        client = api.pair.dial()
        client.feed(PROTOCOL_HEADER)
        client.start_ok("PLAIN", "\0bob\0wrong")
    assert (await api.login("bob", "pw").get(PATH)).status_code == 429
    assert (await api.login("bob", "pw", "192.0.2.1").get(PATH)).status_code == 200


async def test_no_password_is_logged(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await api.login("bob\nforged line", "secret-password").get(PATH)
        await api.get(PATH)
    assert "'bob\\nforged line'" in caplog.text
    assert "secret-password" not in caplog.text
    assert base64.b64encode(b"secret-password").decode()[:16] not in caplog.text


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "KEPT", 100)
    assert KEPT > 100
    clock = FakeClock()
    failures = LoginFailures(clock)
    for at in range(1000):
        failures.add(f"10.0.{at // 250}.{at % 250}", "guest")
        failures.forgive(f"10.1.{at // 250}.{at % 250}", "guest")
    assert len(failures) == 300  # users and addresses that failed, and users that did not
    clock.advance(USER_REFILL_MS + 1)
    failures.add("192.0.2.1", "guest")
    assert len(failures) == 102


def test_an_ipv6_user_has_many_addresses() -> None:
    assert source("2001:db8::1") == source("2001:db8::ffff:1")
    assert source("2001:db8::1") != source("2001:db8:0:1::1")
    assert source("::ffff:192.0.2.1") == source("192.0.2.1") == "192.0.2.1"
