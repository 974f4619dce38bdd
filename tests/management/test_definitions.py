"""Definitions over HTTP: what real RabbitMQs exported goes in, comes out the same, and goes in again."""

import json
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest

from rabbitlike.broker.policies.keys import OPERATOR_POLICY, POLICY
from rabbitlike.broker.terms import Json
from tests.support.api import Api, make_api

FILES = Path(__file__).parent / "definitions"
WHOLE = ("rabbitmq-3.10.8.json", "rabbitmq-4.1.json")
PATH = "/api/definitions"


def load(name: str) -> dict[str, Json]:
    document: dict[str, Json] = json.loads((FILES / name).read_text())
    return document


def entries(document: dict[str, Json], category: str) -> list[dict[str, Json]]:
    found = document[category]
    assert isinstance(found, list)
    return [entry for entry in found if isinstance(entry, dict)]


def in_order(document: dict[str, Json], category: str) -> list[str]:
    return sorted(json.dumps(entry, sort_keys=True) for entry in entries(document, category))


async def exported(api: Api, path: str = PATH) -> dict[str, Json]:
    answer = await api.get(path)
    assert answer.status_code == 200, answer.text
    document: dict[str, Json] = answer.json()
    return document


@pytest.mark.parametrize("name", WHOLE)
async def test_a_file_of_a_real_rabbitmq_is_taken_in_and_comes_out_the_same(api: Api, name: str) -> None:
    document = load(name)
    answer = await api.post(PATH, json=document)
    assert (answer.status_code, answer.content) == (204, b"")
    found = await exported(api)
    for category in ("users", "permissions", "topic_permissions", "policies", "bindings"):
        ours = [json.loads(entry) for entry in in_order(found, category)]
        theirs = [json.loads(entry) for entry in in_order(document, category)]
        assert [each for each in theirs if each not in ours] == [], category
    for category in ("queues", "exchanges"):
        ours = {(str(each["vhost"]), str(each["name"])): each for each in entries(found, category)}
        theirs = {(str(each["vhost"]), str(each["name"])): each for each in entries(document, category)}
        assert ours.keys() == theirs.keys()
        for key, each in theirs.items():
            if key != ("lasting", "scratch") and key != ("lasting", "jobs.implied"):
                assert {field: ours[key][field] for field in each} == each


@pytest.mark.parametrize("name", WHOLE)
async def test_import_export_import_is_stable(api: Api, name: str) -> None:
    await api.post(PATH, json=load(name))
    first = await exported(api)
    assert (await api.post(PATH, json=first)).status_code == 204
    assert await exported(api) == first
    async with make_api() as other:
        other.pair.broker.delete_vhost("/")
        other.pair.broker.parameters.globals.clear()
        assert (await other.post(PATH, json=first)).status_code == 204
        second = await exported(other)
    for category in ("queues", "exchanges", "bindings", "policies", "parameters", "global_parameters", "vhosts"):
        assert in_order(second, category) == in_order(first, category)


async def test_what_the_3_10_file_comes_to(api: Api) -> None:
    assert (await api.post(PATH, json=load("rabbitmq-3.10.8.json"))).status_code == 204
    broker = api.pair.broker
    assert broker.users.authenticate("alice", "wonder") is not None
    assert broker.users.authenticate("sensor", "beep") is not None
    assert broker.users.authenticate("cert-only", "") is None
    sensor = broker.users.get("sensor")
    assert sensor is not None
    assert sensor.limits == {"max-channels": 50, "max-connections": 5}
    assert broker.vhosts["shop"].limits == {"max-connections": 64, "max-queues": 1000}
    topic = broker.permissions.get_topic("sensor", "/", "telemetry")
    assert topic is not None
    assert topic.write == r"^{username}\..*"
    home, shop = broker.vhosts["/"], broker.vhosts["shop"]
    plain = home.queues["work.plain"]
    assert (plain.policy, plain.operator_policy) == (
        home.policies.get(POLICY, "cap"),
        home.policies.get(OPERATOR_POLICY, "ceiling"),
    )
    assert (plain.settings.max_length, plain.settings.expires_ms) == (10000, 604800000)
    assert home.queues["work.all-arguments"].settings.max_length == 500
    assert home.exchanges["telemetry"].alternate == "unrouted"
    assert shop.queues["orders.quorum"].settings.queue_type == "quorum"
    assert shop.queues["orders.quorum"].settings.dead_letter_exchange == "graves"
    kept = home.queues["work.unknown"].arguments
    assert kept["x-custom"] == {"empty": {}, "list": [1, 2.5, "drei", True]}
    assert (kept["x-rate"], kept["x-big"]) == (0.25, 5_000_000_000)
    assert broker.parameters.globals["mqtt_port_to_vhost_mapping"] == {"1883": "shop", "1884": "/"}


async def test_what_the_4_1_file_comes_to(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    assert (await api.post(PATH, json=load("rabbitmq-4.1.json"))).status_code == 204
    broker = api.pair.broker
    lasting = broker.vhosts["lasting"]
    assert (lasting.description, lasting.tags) == ("quorum queues unless told otherwise", ("replicate", "prod"))
    assert (lasting.default_queue_type, lasting.is_protected, lasting.limits) == ("quorum", True, {"max-queues": 500})
    types = {name: queue.settings.queue_type for name, queue in lasting.queues.items()}
    assert types == {"jobs": "quorum", "jobs.implied": "quorum", "scratch": "classic"}
    jobs = lasting.queues["jobs"].settings
    assert (jobs.dead_letter_exchange, jobs.dead_letter_strategy) == ("dead", "at-least-once")
    assert (jobs.delivery_limit, jobs.max_length) == (50, 1_000_000)
    app = broker.users.get("app")
    assert app is not None
    assert (app.limits, app.hashing_algorithm) == (
        {"max-connections": 10, "max-channels": 200},
        "rabbit_password_hashing_sha512",
    )
    assert (
        "parameter 'shovel' 'move' in vhost '/' is not taken over: there is no component 'shovel' here" in caplog.text
    )


async def test_export_has_rabbitmqs_fields(api: Api) -> None:
    ch = api.pair.connect().channel()
    ch.declare("kept", durable=True, arguments={"x-max-length": 5})
    ch.declare("mine", exclusive=True)
    server_named = ch.declare("").queue
    ch.declare_exchange("x", "topic", durable=True)
    for queue in ("kept", "mine", server_named):
        ch.bind(str(queue), "x", "k")
    ch.bind("kept", "amq.topic", "k")
    document = await exported(api)
    assert list(document) == [
        "rabbit_version",
        "rabbitmq_version",
        "product_name",
        "product_version",
        "rabbitmq_definition_format",
        "original_cluster_name",
        "explanation",
        "users",
        "vhosts",
        "permissions",
        "topic_permissions",
        "parameters",
        "global_parameters",
        "policies",
        "queues",
        "exchanges",
        "bindings",
    ]
    assert entries(document, "queues") == [
        {
            "name": "kept",
            "vhost": "/",
            "type": "classic",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-max-length": 5},
        }
    ]
    assert [each["name"] for each in entries(document, "exchanges")] == ["x"]
    assert {(each["source"], each["destination"]) for each in entries(document, "bindings")} == {
        ("x", "kept"),
        ("amq.topic", "kept"),
    }
    user = entries(document, "users")[0]
    assert list(user) == ["name", "password_hash", "hashing_algorithm", "tags", "limits"]
    assert (user["name"], user["tags"], user["limits"]) == ("guest", ["administrator"], {})
    assert entries(document, "vhosts") == [
        {
            "name": "/",
            "description": "Default virtual host",
            "tags": [],
            "metadata": {"description": "Default virtual host", "tags": []},
            "limits": {},
        }
    ]
    assert "internal_cluster_id" in [each["name"] for each in entries(document, "global_parameters")]


async def test_one_vhost_out_of_one_broker_and_into_another(api: Api) -> None:
    await api.post(PATH, json=load("rabbitmq-3.10.8.json"))
    document = await exported(api, "/api/definitions/shop")
    theirs = load("rabbitmq-3.10.8-shop.json")
    assert in_order(document, "bindings") == in_order(theirs, "bindings")
    for category in ("queues", "exchanges", "policies", "bindings", "parameters"):
        assert entries(document, category)
        assert not any("vhost" in each for each in entries(document, category))
    for source in (document, theirs):
        async with make_api() as other:
            other.pair.broker.add_vhost("new")
            assert (await other.post("/api/definitions/new", json=source)).status_code == 204
            new = other.pair.broker.vhosts["new"]
            assert set(new.queues) == {"orders.classic", "orders.quorum", "graves"}
            assert new.queues["orders.classic"].policy is new.policies.get(POLICY, "dlx")
            assert new.limits == {"max-connections": 64, "max-queues": 1000}
            assert "orders.classic" not in other.pair.broker.vhosts["/"].queues
            assert (await other.post(PATH, json=source)).status_code == 400


async def test_what_is_there_stays_and_accounts_are_brought_up_to_date(api: Api) -> None:
    ch = api.pair.connect().channel()
    ch.declare("q", durable=True)
    ch.publish(b"kept", key="q")
    api.pair.broker.set_user("bob", password="old", tags=["management"])
    document = {
        "users": [{"name": "bob", "password": "new", "tags": "monitoring, policymaker"}],
        "queues": [{"vhost": "/", "name": "q", "durable": False, "arguments": {"x-max-length": 1}}],
        "exchanges": [{"vhost": "/", "name": "amq.direct", "type": "fanout"}, {"vhost": "/", "name": "", "type": "x"}],
        "unknown": 5,
    }
    assert (await api.post(PATH, json=document)).status_code == 204
    assert ch.drain("q") == [b"kept"]
    assert api.pair.broker.vhosts["/"].queues["q"].durable
    bob = api.pair.broker.users.authenticate("bob", "new")
    assert bob is not None
    assert set(bob.tags) == {"monitoring", "policymaker"}


async def test_whoever_imports_a_vhost_may_use_it(api: Api) -> None:
    await api.post(PATH, json={"vhosts": [{"name": "new"}]})
    assert api.pair.broker.permissions.get("guest", "new") is not None


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"queues": "x"}, "queues must be a list of objects"),
        ({"queues": [5]}, "queues must be objects, not 5"),
        (
            {"queues": [{"name": "a"}]},
            'queue <<"a">> names no virtual host: import definitions of a single virtual host into a virtual host',
        ),
        (
            {"queues": [{"vhost": "nope", "name": "a"}]},
            "queue 'a' in vhost 'nope': Please create virtual host \"nope\" prior to importing definitions.",
        ),
        ({"queues": [{"vhost": "/"}]}, "queue '?' in vhost '/': name is missing"),
        (
            {"queues": [{"vhost": "/", "name": "bad", "arguments": {"x-max-length": -1}}]},
            "queue 'bad' in vhost '/': invalid arg 'x-max-length' for queue 'bad' in vhost '/': {value_negative,-1}",
        ),
        (
            {"queues": [{"vhost": "/", "name": "n", "arguments": {"k" * 256: 1}}]},
            "queue 'n' in vhost '/': table key longer than 255 octets: 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk'…",
        ),
        (
            {"queues": [{"vhost": "/", "name": "n" * 256}]},
            f"queue '{'n' * 256}' in vhost '/': name is longer than 255 octets",
        ),
        (
            {"queues": [{"vhost": "/", "name": "n", "arguments": [1]}]},
            "queue 'n' in vhost '/': arguments must be an object, not [1]",
        ),
        (
            {"queues": [{"vhost": "/", "name": "n", "durable": 1}]},
            "queue 'n' in vhost '/': durable must be true or false, not 1",
        ),
        (
            {"bindings": [{"vhost": "/", "source": "zz", "destination": "q", "destination_type": "queue"}]},
            "binding 'zz' 'q' '?' in vhost '/': no queue 'q' in vhost '/'",
        ),
        ({"users": [{"name": "u", "password": "x"}]}, "user 'u': tags_not_present"),
        ({"users": [{"name": "u", "password_hash": "!!", "tags": ""}]}, "user 'u': not_base64"),
        (
            {"users": [{"name": "u", "tags": "", "limits": {"max-queues": 1}}]},
            "user 'u': Unrecognised terms [{<<\"max-queues\">>,1}] in limits",
        ),
        ({"vhosts": [{}]}, "vhost '?': name is missing"),
        (
            {"permissions": [{"user": "zz", "vhost": "/", "configure": "", "write": "", "read": ""}]},
            "permission 'zz' in vhost '/': there is no such user",
        ),
        (
            {"permissions": [{"user": "guest", "vhost": "/", "configure": "("}]},
            "permission 'guest' in vhost '/': write is missing",
        ),
        (
            {"policies": [{"vhost": "/", "name": "p", "pattern": "x", "definition": {"max-length": -1}}]},
            "policy 'p' in vhost '/': Validation failed\n\n-1 is not a valid maximum length\n",
        ),
        (
            {"parameters": [{"vhost": "/", "component": "policy", "name": "p", "value": {}}]},
            "parameter 'policy' 'p' in vhost '/': policies may not be set using this method",
        ),
        ({"global_parameters": [{"value": 5}]}, "global parameter '?': name is missing"),
    ],
)
async def test_a_bad_entry_is_named(api: Api, document: dict[str, Json], reason: str) -> None:
    answer = await api.post(PATH, json=document)
    assert (answer.status_code, answer.json()) == (400, {"error": "bad_request", "reason": reason})


def state(api: Api) -> str:
    """Everything that an import could have changed."""
    broker = api.pair.broker
    return repr(
        (
            [(user.name, user.tags, user.limits, user.password_hash) for user in broker.users],
            [
                (vhost, vhost.limits, vhost.description, sorted(vhost.queues), sorted(vhost.exchanges))
                for vhost in broker.vhosts.values()
            ],
            list(broker.permissions),
            list(broker.permissions.topics()),
            list(broker.parameters),
            sorted(broker.parameters.globals),
            [[str(policy) for policy in vhost.policies] for vhost in broker.vhosts.values()],
        )
    )


GOOD: dict[str, Json] = {
    "users": [{"name": "new", "password": "x", "tags": ""}],
    "vhosts": [{"name": "v"}, {"name": "/", "description": "another", "limits": {"max-queues": 50}}],
    "permissions": [{"user": "new", "vhost": "/", "configure": "", "write": "", "read": ""}],
    "topic_permissions": [{"user": "guest", "vhost": "v", "exchange": "x", "write": "", "read": ""}],
    "global_parameters": [{"name": "g", "value": 1}],
    "policies": [{"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": 5}}],
    "parameters": [{"vhost": "v", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 5}}],
    "exchanges": [{"vhost": "/", "name": "x", "type": "direct"}],
    "queues": [{"vhost": "/", "name": "q"}, {"vhost": "/", "name": "short", "arguments": {"x-expires": 1}}],
    "bindings": [
        {"vhost": "/", "source": source, "destination": queue, "destination_type": "queue", "routing_key": "k"}
        for source in ("x", "there", "amq.topic")
        for queue in ("q", "kept")
    ],
}
#: Of each category one that cannot be.
WRONG: dict[str, dict[str, Json]] = {
    "users": {"name": "u", "password_hash": "!!", "tags": ""},
    "vhosts": {},
    "permissions": {"user": "nobody", "vhost": "/", "configure": "", "write": "", "read": ""},
    "topic_permissions": {"user": "guest", "vhost": "/", "exchange": "x", "write": "(", "read": ""},
    "global_parameters": {"value": 5},
    "policies": {"vhost": "/", "name": "p2", "pattern": "(", "definition": {"max-length": 5}},
    "parameters": {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"max-queues": "x"}},
    "exchanges": {"vhost": "/", "name": "y", "type": "x-delayed-message"},
    "queues": {"vhost": "/", "name": "bad", "arguments": {"x-expires": 0}},
    "bindings": {"vhost": "/", "source": "x", "destination": "mine", "destination_type": "queue", "routing_key": ""},
}


@pytest.mark.parametrize("category", WRONG)
async def test_a_bad_entry_changes_nothing(api: Api, category: str) -> None:
    """Validated first: what stands before the entry is not taken in either."""
    ch = api.pair.connect().channel()
    ch.declare("kept", durable=True)
    ch.declare("mine", exclusive=True)
    ch.declare_exchange("there", "topic", durable=True)
    before = state(api)
    found = GOOD[category]
    assert isinstance(found, list)
    answer = await api.post(PATH, json={**GOOD, category: [*found, WRONG[category]]})
    assert answer.status_code == 400, category
    assert state(api) == before
    api.pair.clock.advance(10_000)
    assert state(api) == before, "the rehearsal left nothing that happens later"
    assert (await api.post(PATH, json=GOOD)).status_code == 204
    assert state(api) != before
    home = api.pair.broker.vhosts["/"]
    assert {binding.source for binding in home.bindings_to(home.queues["kept"])} == {"x", "there", "amq.topic"}


UNSUPPORTED: dict[str, Json] = {
    "vhosts": [{"name": "new", "default_queue_type": "stream"}],
    "queues": [
        {"vhost": "/", "name": "s1", "durable": True, "arguments": {"x-queue-type": "stream"}},
        {"vhost": "/", "name": "s2", "durable": True, "type": "rabbit_stream_queue"},
        {"vhost": "/", "name": "last", "durable": True},
    ],
    "exchanges": [{"vhost": "/", "name": "x", "type": "x-jms-topic"}, {"vhost": "/", "name": "y", "type": "fanout"}],
    "policies": [
        {"vhost": "/", "name": "p", "pattern": "", "definition": {"shards-per-node": 2, "max-length": 5}},
        {"vhost": "/", "name": "fine", "pattern": "", "definition": {"max-length": 5}},
    ],
    "parameters": [
        {"vhost": "/", "component": "shovel", "name": "move", "value": {}},
        {"vhost": "/", "component": "zz", "name": "p", "value": 1},
    ],
    "bindings": [
        {"vhost": "/", "source": source, "destination": queue, "destination_type": "queue", "routing_key": ""}
        for source, queue in (("y", "s1"), ("x", "last"), ("y", "last"))
    ],
}


async def test_unsupported_entries_are_passed_over(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    answer = await api.post(PATH, json=UNSUPPORTED)
    assert (answer.status_code, answer.headers["x-skipped-entries"]) == (204, "9")
    home = api.pair.broker.vhosts["/"]
    assert list(home.queues) == ["last"]
    assert [binding.source for binding in home.bindings_to(home.queues["last"])] == ["y"]
    assert home.queues["last"].settings.max_length == 5
    assert "new" in api.pair.broker.vhosts
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == 9, "each is told of once"
    assert "definitions: queue 's1' in vhost '/' is not taken over: there is no queue type 'stream' here" in lines
    assert "definitions: binding 'y' 's1' '' in vhost '/' is not taken over: neither is its queue 's1'" in lines
    assert (await api.post(PATH, json={**GOOD, "bindings": []})).headers["x-skipped-entries"] == "0"


async def test_a_strict_import_refuses_them_before_anything_changes(api: Api) -> None:
    before = state(api)
    answer = await api.post(PATH + "?strict=true", json=UNSUPPORTED)
    assert answer.status_code == 400
    assert answer.json()["reason"].startswith("strict import refused, 9 not supported: the default queue type of vhost")
    assert state(api) == before
    assert (await api.post(PATH + "?strict=true", json={**GOOD, "bindings": []})).status_code == 204


async def test_limits_of_the_document_itself_count(api: Api) -> None:
    before = state(api)
    document = {
        "vhosts": [{"name": "/", "limits": {"max-queues": 2}}],
        "queues": [{"vhost": "/", "name": f"q{number}"} for number in range(3)],
    }
    assert "would exceed the limit of 2" in (await api.post(PATH, json=document)).json()["reason"]
    assert state(api) == before


async def test_too_many_queues_are_none(api: Api) -> None:
    api.pair.broker.set_vhost_limits("/", {"max-queues": 2})
    document = {"queues": [{"vhost": "/", "name": f"q{number}"} for number in range(3)]}
    answer = await api.post(PATH, json=document)
    assert answer.json()["reason"].startswith('Adding 3 queue(s) to virtual host "/" would exceed the limit of 2')
    assert not api.pair.broker.vhosts["/"].queues


async def test_as_a_form(api: Api) -> None:
    file = {"file": ("d.json", b'{"vhosts": [{"name": "multi"}]}', "application/json")}
    assert (await api.post(PATH, files=file)).status_code == 204
    assert "multi" in api.pair.broker.vhosts
    sent = await api.post(PATH, files=file, data={"redirect": "../#/import-succeeded"})
    assert (sent.status_code, sent.headers["location"]) == (303, "../#/import-succeeded")
    elsewhere = await api.post(PATH, files=file, data={"redirect": "//evil.example/"})
    assert elsewhere.status_code == 204
    for wrong in ({"other": ("d.json", b"{}")}, {"file": ("d.json", b"{")}):
        answer = await api.post(PATH, files=wrong)
        assert (answer.status_code, answer.json()["reason"]) == (400, "failed_to_parse_json")


async def test_a_download_has_a_name(api: Api) -> None:
    answer = await api.get(PATH + "?download=x.json")
    assert answer.headers["content-disposition"] == "attachment; filename=x.json"
    assert (await api.get(PATH, params={"download": 'x"\r\ny: z'})).status_code == 400


async def test_vhosts_that_are_not_there(api: Api) -> None:
    answer = await api.get("/api/definitions/nope")
    assert (answer.status_code, answer.json()) == (400, {"error": "bad_request", "reason": "vhost_not_found"})
    answer = await api.post("/api/definitions/nope", json={})
    assert (answer.status_code, answer.json()) == (404, {"error": "not_found", "reason": "vhost_not_found"})


@pytest.mark.parametrize("tags", [[], ["management"], ["monitoring", "policymaker"]])
async def test_administrators_only(api: Api, tags: list[str]) -> None:
    user = api.user("somebody", tags)
    for path in (PATH, "/api/definitions/%2F", "/api/all-configuration"):
        assert (await user.get(path)).status_code == 401
        assert (await user.post(path, json={})).status_code == 401
        assert (await api.get(path)).status_code == 200
        assert (await api.post(path, json={})).status_code == 204


async def test_thousands_of_entries(api: Api) -> None:
    """In slices, in and out, and nothing is lost between them."""
    count = 3000
    document = {
        "policies": [{"vhost": "/", "name": "p", "pattern": "^q", "definition": {"max-length": 5}}],
        "queues": [{"vhost": "/", "name": f"q{number}", "durable": True} for number in range(count)],
        "bindings": [
            {
                "vhost": "/",
                "source": "amq.topic",
                "destination": f"q{number}",
                "destination_type": "queue",
                "routing_key": f"k{number}",
            }
            for number in range(count)
        ],
    }
    assert (await api.post(PATH, json=document)).status_code == 204
    queues = api.pair.broker.vhosts["/"].queues
    assert {queue.settings.max_length for queue in queues.values()} == {5}
    found = await exported(api)
    assert (len(entries(found, "queues")), len(entries(found, "bindings"))) == (count, count)


async def test_a_login_in_the_query(api: Api) -> None:
    """parity: a page of RabbitMQ 3.10 downloads and uploads files by links and forms, which carry no header."""
    stranger = api.stranger()
    guest = quote(b64encode(b"guest:guest").decode(), safe="")
    path = f"/api/definitions?download=file.json&auth={guest}"
    answer = await stranger.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == "attachment; filename=file.json"
    assert (await stranger.get(f"/api/definitions/%2F?auth={guest}")).status_code == 200
    # Longer than what may be sent without a login.
    file = {"file": ("d.json", b'{"users": []}' + b" " * 10_000)}
    assert (await stranger.post(f"/api/definitions?auth={guest}", files=file)).status_code == 204
    api.pair.add_user("plus", "~~~>>>???")  # in base64 with +, which some leave as it is
    api.pair.broker.users.set_tags("plus", ["administrator"])
    plus = b64encode(b"plus:~~~>>>???").decode()
    assert "+" in plus
    assert (await stranger.get(f"/api/definitions?auth={plus}")).status_code == 200


@pytest.mark.parametrize("auth", ["", "x", "Z3Vlc3Q", b64encode(b"guest:wrong").decode(), b64encode(b"\xff:").decode()])
async def test_logins_in_the_query_that_will_not_do(api: Api, auth: str) -> None:
    """parity: it is believed before the header."""
    for client in (api, api.stranger()):
        answer = await client.get(f"/api/definitions?auth={quote(auth, safe='')}")
        assert answer.status_code == 401


async def test_a_login_in_the_query_is_for_definitions_alone(api: Api) -> None:
    guest = quote(b64encode(b"guest:guest").decode(), safe="")
    for path in ("/api/overview", "/api/queues", "/api/definitionsx", "/api/whoami"):
        assert (await api.stranger().get(f"{path}?auth={guest}")).status_code in (401, 404), path
    bob = api.user("bob")
    mine = quote(b64encode(b"bob:pw").decode(), safe="")
    assert (await bob.get(f"/api/definitions?auth={mine}")).json()["reason"] == "Not administrator user"


async def test_a_login_in_the_query_lets_no_other_site_in(api: Api) -> None:
    guest = quote(b64encode(b"guest:guest").decode(), safe="")
    headers = {"Sec-Fetch-Site": "cross-site", "Origin": "http://elsewhere.example"}
    answer = await api.stranger().post(f"/api/definitions?auth={guest}", json={}, headers=headers)
    assert answer.status_code == 403


async def test_logins_in_the_query_cannot_be_used_to_guess(api: Api) -> None:
    stranger = api.stranger()
    for number in range(15):
        wrong = quote(b64encode(b"guest:%d" % number).decode(), safe="")
        answer = await stranger.get(f"/api/definitions?auth={wrong}")
    assert answer.status_code == 429
