"""Where webhooks may go, and what is shown of the credentials in their URLs."""

import asyncio
import json
import ssl

import httpcore
import pytest
import trustme

from rabbitlike.broker.policies.keys import POLICY
from rabbitlike.broker.policies.webhook_urls import masked
from rabbitlike.broker.topology import restore
from rabbitlike.management.webhooks.outbound import CheckedNetwork, look_up, make_client
from rabbitlike.management.webhooks.targets import AllowedTargets, RefusedTargetError
from rabbitlike.storage.api import Record
from tests.management.test_webhooks import Receiver, kill, until
from tests.support.api import Api, make_api
from tests.support.pair import Pair

PUBLIC = ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
PRIVATE = [
    "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "fe80::1", "fe80::1%eth0", "fc00::1", "100.64.0.1", "224.0.0.1", "239.1.1.1", "ff02::1", "255.255.255.255",
    "192.0.2.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2002:a00:1::",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert AllowedTargets().choose("example.com", [address]) == [address]


@pytest.mark.parametrize("address", PRIVATE)
def test_others_are_not(address: str) -> None:
    with pytest.raises(RefusedTargetError, match=r"is not a public address; .* list it in webhook_allow"):
        AllowedTargets().choose("example.com", [address])
    assert AllowedTargets().choose("example.com", [address, "8.8.8.8"]) == ["8.8.8.8"]


@pytest.mark.parametrize(
    ("entry", "host", "address"),
    [
        ("10.0.0.0/8", "hooks.internal", "10.1.2.3"),
        ("10.0.0.0/8", "hooks.internal", "::ffff:10.1.2.3"),
        ("10.1.2.3/8", "hooks.internal", "10.9.9.9"),
        ("127.0.0.1", "localhost", "127.0.0.1"),
        ("::1", "localhost", "::1"),
        ("fc00::/7", "hooks.internal", "fd00::1"),
        ("hooks.internal", "Hooks.Internal.", "10.1.2.3"),
    ],
)
def test_what_is_listed_is_allowed(entry: str, host: str, address: str) -> None:
    assert AllowedTargets([entry]).choose(host, [address]) == [address]
    with pytest.raises(RefusedTargetError):
        AllowedTargets([entry]).choose("elsewhere", ["192.168.0.1"])


class Names:
    """What names have for addresses: one list for each time they are looked up, the last over and over."""

    def __init__(self, **lists: list[list[str]]) -> None:
        self._lists = {name.replace("_", "."): answers for name, answers in lists.items()}

    async def look_up(self, host: str, port: int) -> list[str]:
        answers = self._lists[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]


async def post(url: str, *allow: str, names: Names | None = None, context: ssl.SSLContext | None = None) -> int:
    network = CheckedNetwork(AllowedTargets(allow), look_up if names is None else names.look_up)
    async with make_client(network, context or ssl.create_default_context(), 5, 10, "test") as client:
        return (await client.post(url, content=b"{}")).status_code


async def test_the_check_is_of_the_address_that_is_connected_to() -> None:
    """A name with another address each time it is looked up gains nothing: it is looked up once."""
    receiver = Receiver()
    await receiver.start()
    port = receiver.url.rpartition(":")[2].removesuffix("/alerts")
    names = Names(rebinding_example=[["127.0.0.2"], ["8.8.8.8"]])
    with pytest.raises(RefusedTargetError, match=r"^127\.0\.0\.2 is not"):
        await post(f"http://rebinding.example:{port}/", names=names)
    names = Names(rebinding_example=[["192.168.0.1", "127.0.0.1"], ["192.168.0.1"]])
    assert await post(f"http://rebinding.example:{port}/x?y=1", "127.0.0.1", names=names) == 200
    ((headers, _),) = receiver.requests
    assert headers["host"] == f"rebinding.example:{port}"
    await receiver.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0"])
async def test_no_spelling_of_this_machine_is_allowed(host: str) -> None:
    with pytest.raises((RefusedTargetError, OSError)):
        await post(f"http://{host}:1/")


async def test_tls_asks_for_the_name() -> None:
    """The certificate must be that of the name in the URL, although the connection goes to an address."""
    authority = trustme.CA()
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("hooks.example").configure_cert(serving)
    asked: list[str | None] = []
    serving.sni_callback = lambda _, name, __: asked.append(name)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 204 Said\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    context = ssl.create_default_context()
    authority.configure_trust(context)
    names = Names(hooks_example=[["127.0.0.1"]], other_example=[["127.0.0.1"]])
    assert await post(f"https://hooks.example:{port}/", "127.0.0.1", names=names, context=context) == 204
    with pytest.raises(httpcore.ConnectError, match="certificate"):
        await post(f"https://other.example:{port}/", "127.0.0.1", names=names, context=context)
    assert asked == ["hooks.example", "other.example"]
    server.close()


async def test_redirects_are_not_followed() -> None:
    receiver = Receiver()
    await receiver.start()
    receiver.statuses = [307]
    assert await post(receiver.url, "127.0.0.1") == 307
    assert len(receiver.requests) == 1
    await receiver.stop()


async def test_a_refused_target_is_told_of_and_hears_nothing(caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver()
    await receiver.start()
    async with make_api() as api:
        api.context.webhooks.start()
        url = receiver.url.replace("http://", "http://user:hidden@")
        body = {"pattern": "^q$", "definition": {"dead-letter-webhook": url}}
        assert (await api.put("/api/policies/%2F/alert", json=body)).status_code == 201
        ch = api.pair.connect().channel()
        ch.declare("q")
        kill(ch)
        target = api.context.webhooks.targets()[0]
        for _ in range(3):
            await until(lambda: target.state == "waiting")
            api.pair.advance(60_000)
            await until(lambda: target.state != "waiting" or target.next_attempt_at_ms is not None)
        said = "127.0.0.1 is not a public address; to send webhooks there, list it in webhook_allow"
        assert (await api.get("/api/webhooks")).json()[0]["last_error"] == f"refused: {said}"
        assert caplog.text.count(f"webhook {masked(url)} is refused: {said}") == 1
        assert "hidden" not in caplog.text
        await api.context.webhooks.close()
    assert receiver.requests == []
    await receiver.stop()


# What is shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/x", "https://example.com/x"),
        ("https://user:pass@example.com:8443/x", "https://…@example.com:8443/x"),
        ("https://token@example.com/x", "https://…@example.com/x"),
        ("https://a@b@example.com/", "https://…@example.com/"),
        ("https://example.com/x?token=secret#part", "https://example.com/x?…#part"),
    ],
)
def test_masks(url: str, shown: str) -> None:
    assert masked(url) == shown


SECRET_URL = "https://user:hidden@example.com/x?token=hidden"
SHOWN_URL = "https://…@example.com/x?…"


@pytest.mark.parametrize("key", ["dead-letter-webhook", "dlq-webhook"])
async def test_credentials_are_shown_in_definitions_alone(api: Api, key: str) -> None:
    body = {"pattern": "^q", "definition": {key: SECRET_URL, "max-length": 5}}
    assert (await api.put("/api/policies/%2F/alert", json=body)).status_code == 201
    ch = api.pair.connect().channel()
    ch.declare("q")
    for client in (api, api.user("bob", ["policymaker"]), api.user("eve", ["monitoring"])):
        for path in (
            "policies", "policies/%2F", "policies/%2F/alert", "queues", "queues/detailed", "queues/%2F", "queues/%2F/q",
            "v1/queues", "v1/queues/q", "parameters", "overview", "webhooks",
        ):  # fmt: skip
            answer = await client.get(f"/api/{path}")
            assert "hidden" not in answer.text, path
    assert (await api.get("/api/policies/%2F/alert")).json()["definition"] == {key: SHOWN_URL, "max-length": 5}
    page = (await api.get("/api/queues/%2F/q")).json()
    assert page["effective_policy_definition"][key] == SHOWN_URL
    # For administrators alone, and so that it can be taken in again.
    for path in ("definitions", "definitions/%2F"):
        assert SECRET_URL in (await api.get(f"/api/{path}")).text
        assert (await api.user("bob", ["policymaker"]).get(f"/api/{path}")).status_code == 401
    document = (await api.get("/api/definitions")).json()
    async with make_api() as other:
        assert (await other.post("/api/definitions", json=document)).status_code == 204
        (policy,) = other.pair.broker.vhosts["/"].policies.all(POLICY)
        assert policy.definition[key] == SECRET_URL


async def test_who_changes_a_policy_need_not_know_its_credentials(api: Api) -> None:
    path = "/api/policies/%2F/alert"
    body = {"pattern": "^q", "definition": {"dead-letter-webhook": SECRET_URL}}
    await api.put(path, json=body)
    shown = (await api.get(path)).json()
    shown["definition"]["max-length"] = 7
    assert (await api.put(path, json=shown)).status_code == 204
    policy = api.pair.broker.vhosts["/"].policies.get(POLICY, "alert")
    assert policy is not None
    assert policy.definition == {"dead-letter-webhook": SECRET_URL, "max-length": 7}
    # But they go nowhere else.
    for url in (SHOWN_URL.replace("example.com", "evil.example"), SHOWN_URL.replace("https", "http")):
        body = {"pattern": "^q", "definition": {"dead-letter-webhook": url}}
        answer = await api.put(path, json=body)
        assert answer.status_code == 400
        assert answer.json()["reason"] == "dead-letter-webhook: … stands for credentials that are not shown; give them"
    document = {"policies": [{"vhost": "/", "name": "p", "pattern": "", "definition": {"dlq-webhook": SHOWN_URL}}]}
    assert (await api.post("/api/definitions", json=document)).status_code == 400


async def test_a_queues_configuration_hides_them_too(api: Api) -> None:
    config = {"name": "q", "dlq_config": {"enabled": True, "alert_webhook": SECRET_URL}}
    assert (await api.post("/api/v1/queues", json=config)).status_code == 201
    shown = (await api.get("/api/v1/queues/q")).json()
    assert shown["dlq_config"]["alert_webhook"] == SHOWN_URL
    answer = await api.put("/api/v1/queues/q/config", json={"dlq_config": shown["dlq_config"]})
    assert answer.status_code == 200, answer.text
    assert api.pair.broker.vhosts["/"].queues["q"].settings.dead_letter_webhook == SECRET_URL


async def test_the_filter_of_webhooks_does_not_tell_either(api: Api) -> None:
    api.context.webhooks.start()
    body = {"pattern": "^q$", "definition": {"dead-letter-webhook": "http://user:hidden@10.0.0.1/"}}
    await api.put("/api/policies/%2F/alert", json=body)
    ch = api.pair.connect().channel()
    ch.declare("q")
    kill(ch)
    answer = (await api.get("/api/webhooks?page=1&name=hid&use_regex=true")).json()
    assert (answer["filtered_count"], answer["total_count"]) == (0, 1)
    await api.context.webhooks.close()


@pytest.mark.parametrize(
    "url",
    ["http://a/\r\nX: y", "http://a/\n", "http://a\r/", "http://a/\tb", "http://a/ b", "http://a/\x7f", " http://a"],
)
async def test_line_ends_in_urls_are_refused(api: Api, url: str) -> None:
    body = {"pattern": "", "definition": {"dead-letter-webhook": url}}
    answer = await api.put("/api/policies/%2F/p", json=body)
    assert answer.status_code == 400
    assert "is not a valid webhook URL" in answer.json()["reason"]


def test_a_policy_that_an_older_broker_took_does_not_keep_this_one_from_starting() -> None:
    broker = Pair().broker
    value = {
        "pattern": "",
        "apply-to": "all",
        "priority": 0,
        "definition": {"max-length": 1, "dead-letter-webhook": "http://a/\r\nX: y"},
    }
    restore(broker, [Record(POLICY, json.dumps(["/", "p"]), json.dumps(value))])
    policy = broker.vhosts["/"].policies.get(POLICY, "p")
    assert policy is not None
    assert policy.definition == {"max-length": 1}
