"""Changes, right and wrong ones, asked of both brokers in this order after the topology was declared."""

from typing import Final

from interop.management.asking import Request, delete, get, post, put

_JSON: Final = {"Content-Type": "application/json"}
_NOT_JSON: Final = b"{not json"
_MESSAGE: Final[dict[str, object]] = {
    "properties": {},
    "routing_key": "drawn",
    "payload": "hello",
    "payload_encoding": "string",
}
_ALL_PROPERTIES: Final = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {
        "word": "text",
        "number": 1,
        "big": 1 << 40,
        "half": 0.5,
        "yes": True,
        "list": [1, "b"],
        "in": {"a": 1},
    },
    "delivery_mode": 2,
    "priority": 0,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "600000",
    "message_id": "m",
    "timestamp": 1700000000,
    "type": "t",
    "app_id": "a",
}


def _take(ackmode: str, count: int = 1, **more: object) -> dict[str, object]:
    return {"count": count, "ackmode": ackmode, "encoding": "auto"} | more


QUEUES: Final = (
    put("queue-new", "/queues/parity/drawn", {"durable": True, "auto_delete": False, "arguments": {"x-max-length": 9}}),
    put("queue-again", "/queues/parity/drawn", {"durable": True, "arguments": {"x-max-length": 9}}),
    put("queue-inequivalent-durable", "/queues/parity/drawn", {"durable": False, "arguments": {"x-max-length": 9}}),
    put("queue-inequivalent-argument", "/queues/parity/drawn", {"durable": True, "arguments": {"x-max-length": 8}}),
    put("queue-missing-argument", "/queues/parity/drawn", {"durable": True}),
    put("queue-bad-argument", "/queues/parity/wrong", {"arguments": {"x-message-ttl": "soon"}}),
    put("queue-negative-argument", "/queues/parity/wrong", {"arguments": {"x-max-length": -1}}),
    put("queue-bad-overflow", "/queues/parity/wrong", {"arguments": {"x-overflow": "explode"}}),
    put("queue-bad-type", "/queues/parity/wrong", {"arguments": {"x-queue-type": "pile"}}),
    put("queue-transient-quorum", "/queues/parity/wrong", {"durable": False, "arguments": {"x-queue-type": "quorum"}}),
    put("queue-reserved-name", "/queues/parity/amq.mine", {}),
    put("queue-arguments-not-an-object", "/queues/parity/wrong", {"arguments": [1]}),
    put("queue-durable-as-text", "/queues/parity/texted", {"durable": "true"}),
    put("queue-durable-as-wrong-text", "/queues/parity/wrong", {"durable": "maybe"}),
    put("queue-unknown-key", "/queues/parity/with-unknown-key", {"durable": True, "colour": "red"}),
    put("queue-unknown-node", "/queues/parity/elsewhere", {"node": "rabbit@elsewhere"}),
    put("queue-body-is-a-list", "/queues/parity/wrong", []),
    Request("queue-body-not-json", "PUT", "/queues/parity/wrong", content=_NOT_JSON),
    Request("queue-body-empty", "PUT", "/queues/parity/from-empty", content=b""),
    put("queue-absent-vhost", "/queues/none/wrong", {}),
    get("queue-after", "/queues/parity/drawn?columns=name,durable,auto_delete,exclusive,arguments,type,vhost"),
    post("queue-action-sync", "/queues/parity/drawn/actions", {"action": "sync"}),
    post("queue-action-unknown", "/queues/parity/drawn/actions", {"action": "dance"}),
)

EXCHANGES: Final = (
    put("exchange-new", "/exchanges/parity/x-drawn", {"type": "topic", "durable": True}),
    put("exchange-again", "/exchanges/parity/x-drawn", {"type": "topic", "durable": True}),
    put("exchange-inequivalent-type", "/exchanges/parity/x-drawn", {"type": "direct", "durable": True}),
    put("exchange-inequivalent-durable", "/exchanges/parity/x-drawn", {"type": "topic", "durable": False}),
    put("exchange-no-type", "/exchanges/parity/wrong", {"durable": True}),
    put("exchange-unknown-type", "/exchanges/parity/wrong", {"type": "square"}),
    put("exchange-reserved-name", "/exchanges/parity/amq.mine", {"type": "direct"}),
    put("exchange-predeclared", "/exchanges/parity/amq.direct", {"type": "direct", "durable": True}),
    put("exchange-default", "/exchanges/parity/amq.default", {"type": "direct", "durable": True}),
    put(
        "exchange-internal", "/exchanges/parity/x-internal", {"type": "fanout", "internal": True, "auto_delete": False}
    ),
    put(
        "exchange-alternate",
        "/exchanges/parity/x-alternate",
        {"type": "fanout", "arguments": {"alternate-exchange": "y"}},
    ),
    Request("exchange-body-not-json", "PUT", "/exchanges/parity/wrong", content=_NOT_JSON),
    delete("exchange-delete-predeclared", "/exchanges/parity/amq.direct"),
    delete("exchange-delete-default", "/exchanges/parity/amq.default"),
)

BINDINGS: Final = (
    post("binding-new", "/bindings/parity/e/x-drawn/q/drawn", {"routing_key": "a.b", "arguments": {}}),
    post("binding-again", "/bindings/parity/e/x-drawn/q/drawn", {"routing_key": "a.b", "arguments": {}}),
    post("binding-with-arguments", "/bindings/parity/e/x-drawn/q/drawn", {"routing_key": "k/1", "arguments": {"n": 1}}),
    post("binding-no-body", "/bindings/parity/e/x-drawn/q/drawn"),
    post("binding-empty-body", "/bindings/parity/e/x-drawn/q/drawn", {}),
    post("binding-bad-arguments", "/bindings/parity/e/x-drawn/q/drawn", {"routing_key": "a", "arguments": 1}),
    post("binding-absent-queue", "/bindings/parity/e/x-drawn/q/none", {"routing_key": "a"}),
    post("binding-absent-exchange", "/bindings/parity/e/none/q/drawn", {"routing_key": "a"}),
    post("binding-of-default", "/bindings/parity/e/amq.default/q/drawn", {"routing_key": "a"}),
    post("binding-exchange", "/bindings/parity/e/x-drawn/e/a-fanout", {"routing_key": "to.exchange"}),
    get("binding-after", "/bindings/parity/e/x-drawn/q/drawn"),
    get("binding-one", "/bindings/parity/e/x-drawn/q/drawn/a.b"),
    delete("binding-delete", "/bindings/parity/e/x-drawn/q/drawn/a.b"),
    delete("binding-delete-again", "/bindings/parity/e/x-drawn/q/drawn/a.b"),
    delete("binding-delete-default", "/bindings/parity/e/amq.default/q/drawn/drawn"),
)

MESSAGES: Final = (
    post("publish-routed", "/exchanges/parity/amq.default/publish", _MESSAGE),
    post("publish-not-routed", "/exchanges/parity/x-drawn/publish", _MESSAGE | {"routing_key": "nowhere"}),
    post("publish-properties", "/exchanges/parity/amq.default/publish", _MESSAGE | {"properties": _ALL_PROPERTIES}),
    post(
        "publish-base64",
        "/exchanges/parity/amq.default/publish",
        _MESSAGE | {"payload": "/wD+", "payload_encoding": "base64"},
    ),
    post(
        "publish-bad-base64",
        "/exchanges/parity/amq.default/publish",
        _MESSAGE | {"payload": "?", "payload_encoding": "base64"},
    ),
    post("publish-bad-encoding", "/exchanges/parity/amq.default/publish", _MESSAGE | {"payload_encoding": "rot13"}),
    post("publish-no-payload", "/exchanges/parity/amq.default/publish", {"properties": {}, "routing_key": "drawn"}),
    post("publish-empty-object", "/exchanges/parity/amq.default/publish", {}),
    post("publish-payload-number", "/exchanges/parity/amq.default/publish", _MESSAGE | {"payload": 1}),
    post(
        "publish-bad-property", "/exchanges/parity/amq.default/publish", _MESSAGE | {"properties": {"priority": "high"}}
    ),
    post(
        "publish-unknown-property",
        "/exchanges/parity/amq.default/publish",
        _MESSAGE | {"properties": {"colour": "red"}},
    ),
    post(
        "publish-properties-list",
        "/exchanges/parity/amq.default/publish",
        _MESSAGE | {"properties": [], "routing_key": "x"},
    ),
    post("publish-user-id", "/exchanges/parity/amq.default/publish", _MESSAGE | {"properties": {"user_id": "mallory"}}),
    post(
        "publish-bad-expiration",
        "/exchanges/parity/amq.default/publish",
        _MESSAGE | {"properties": {"expiration": "soon"}},
    ),
    post("publish-internal", "/exchanges/parity/x-internal/publish", _MESSAGE),
    post("publish-absent-exchange", "/exchanges/parity/none/publish", _MESSAGE),
    post("publish-absent-vhost", "/exchanges/none/amq.default/publish", _MESSAGE),
    Request("publish-not-json", "POST", "/exchanges/parity/amq.default/publish", content=_NOT_JSON),
    post("take-requeued", "/queues/parity/drawn/get", _take("ack_requeue_true", 10)),
    post("take-again", "/queues/parity/drawn/get", _take("reject_requeue_true", 2)),
    post("take-base64", "/queues/parity/drawn/get", _take("ack_requeue_true", 10, encoding="base64")),
    post("take-truncated", "/queues/parity/drawn/get", _take("ack_requeue_true", 10, truncate=2)),
    post("take-acked", "/queues/parity/drawn/get", _take("ack_requeue_false", 1)),
    post("take-rejected", "/queues/parity/drawn/get", _take("reject_requeue_false", 1)),
    post("take-number-as-text", "/queues/parity/drawn/get", _take("ack_requeue_true") | {"count": "1"}),
    post("take-nothing", "/queues/parity/texted/get", _take("ack_requeue_false")),
    post("take-bad-ackmode", "/queues/parity/drawn/get", _take("keep")),
    post("take-bad-encoding", "/queues/parity/drawn/get", _take("ack_requeue_true", encoding="rot13")),
    post("take-bad-count", "/queues/parity/drawn/get", _take("ack_requeue_true") | {"count": "many"}),
    post("take-negative-count", "/queues/parity/drawn/get", _take("ack_requeue_true", -1)),
    post("take-no-count", "/queues/parity/drawn/get", {"ackmode": "ack_requeue_true", "encoding": "auto"}),
    post("take-no-ackmode", "/queues/parity/drawn/get", {"count": 1, "encoding": "auto"}),
    post("take-old-requeue", "/queues/parity/drawn/get", {"count": 1, "requeue": True, "encoding": "auto"}),
    post("take-no-encoding", "/queues/parity/drawn/get", {"count": 1, "ackmode": "ack_requeue_true"}),
    post("take-absent-queue", "/queues/parity/none/get", _take("ack_requeue_true")),
    post("take-exclusive", "/queues/parity/{exclusive}/get", _take("ack_requeue_true")),
    Request("take-not-json", "POST", "/queues/parity/drawn/get", content=_NOT_JSON),
    delete("purge", "/queues/parity/drawn/contents"),
    delete("purge-absent", "/queues/parity/none/contents"),
)

ACCOUNTS: Final = (
    put("user-new", "/users/drawn", {"password": "x", "tags": "management"}),
    put("user-again", "/users/drawn", {"password": "y", "tags": ["monitoring", "own"]}),
    get("user-after", "/users/drawn"),
    put("user-no-tags", "/users/wrong", {"password": "x"}),
    put("user-no-password", "/users/passwordless", {"tags": ""}),
    put(
        "user-hash", "/users/hashed", {"password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "tags": ""}
    ),
    get("user-hash-after", "/users/hashed"),
    put("user-bad-hash", "/users/wrong", {"password_hash": "!", "tags": ""}),
    put("user-both-passwords", "/users/wrong", {"password": "x", "password_hash": "", "tags": ""}),
    put("user-empty-password", "/users/wrong", {"password": "", "tags": ""}),
    put("user-numeric-password", "/users/wrong", {"password": 1, "tags": ""}),
    put("user-numeric-tags", "/users/wrong", {"password": "x", "tags": 1}),
    put(
        "user-unknown-algorithm",
        "/users/wrong",
        {"password_hash": "aGFzaA==", "tags": "", "hashing_algorithm": "rot13"},
    ),
    Request("user-not-json", "PUT", "/users/wrong", content=_NOT_JSON),
    post("user-bulk-delete", "/users/bulk-delete", {"users": ["hashed", "passwordless", "never-was"]}),
    post("user-bulk-delete-wrong", "/users/bulk-delete", {}),
    delete("user-delete-absent", "/users/never-was"),
    put("permission-new", "/permissions/parity/drawn", {"configure": "a", "write": "b", "read": "c"}),
    put("permission-again", "/permissions/parity/drawn", {"configure": "a", "write": "b", "read": "d"}),
    put("permission-missing", "/permissions/parity/drawn", {"configure": "a", "write": "b"}),
    put("permission-bad-regex", "/permissions/parity/drawn", {"configure": "(", "write": "", "read": ""}),
    put("permission-number", "/permissions/parity/drawn", {"configure": 1, "write": "", "read": ""}),
    put("permission-absent-user", "/permissions/parity/never-was", {"configure": "", "write": "", "read": ""}),
    put("permission-absent-vhost", "/permissions/none/drawn", {"configure": "", "write": "", "read": ""}),
    delete("permission-delete", "/permissions/parity/drawn"),
    delete("permission-delete-again", "/permissions/parity/drawn"),
    put(
        "topic-permission-new", "/topic-permissions/parity/drawn", {"exchange": "amq.topic", "write": "a", "read": "b"}
    ),
    put(
        "topic-permission-again",
        "/topic-permissions/parity/drawn",
        {"exchange": "amq.topic", "write": "a", "read": "c"},
    ),
    put("topic-permission-missing", "/topic-permissions/parity/drawn", {"exchange": "amq.topic", "write": "a"}),
    put("topic-permission-bad", "/topic-permissions/parity/drawn", {"exchange": "amq.topic", "write": "(", "read": ""}),
    delete("topic-permission-delete", "/topic-permissions/parity/drawn"),
    delete("topic-permission-delete-again", "/topic-permissions/parity/drawn"),
    put("vhost-new", "/vhosts/drawn", {"description": "d", "tags": ["one", "two"]}),
    put("vhost-again", "/vhosts/drawn", {"description": "e"}),
    get("vhost-after", "/vhosts/drawn?columns=name,description,tags,metadata,tracing"),
    put("vhost-tracing", "/vhosts/drawn", {"tracing": True}),
    Request("vhost-empty-body", "PUT", "/vhosts/drawn-empty", content=b""),
    Request("vhost-not-json", "PUT", "/vhosts/wrong", content=_NOT_JSON),
    put("vhost-bad-tags", "/vhosts/wrong", {"tags": 1}),
    delete("vhost-delete", "/vhosts/drawn"),
    delete("vhost-delete-again", "/vhosts/drawn"),
    delete("vhost-delete-empty", "/vhosts/drawn-empty"),
    put("vhost-limit-bad-name", "/vhost-limits/parity/max-fun", {"value": 1}),
    put("vhost-limit-bad-value", "/vhost-limits/parity/max-queues", {"value": "many"}),
    put("vhost-limit-no-value", "/vhost-limits/parity/max-queues", {}),
    put("vhost-limit-negative", "/vhost-limits/par%2Fity/max-queues", {"value": -1}),
    put("vhost-limit-absent-vhost", "/vhost-limits/none/max-queues", {"value": 1}),
    delete("vhost-limit-delete", "/vhost-limits/par%2Fity/max-queues"),
    delete("vhost-limit-delete-again", "/vhost-limits/par%2Fity/max-queues"),
    put("user-limit-bad-name", "/user-limits/drawn/max-fun", {"value": 1}),
    put("user-limit-bad-value", "/user-limits/drawn/max-channels", {"value": "many"}),
    put("user-limit-new", "/user-limits/drawn/max-channels", {"value": 5}),
    put("user-limit-absent-user", "/user-limits/never-was/max-channels", {"value": 1}),
    delete("user-limit-delete", "/user-limits/drawn/max-channels"),
    delete("user-limit-delete-again", "/user-limits/drawn/max-channels"),
    delete("user-delete", "/users/drawn"),
)

POLICIES: Final = (
    put("policy-new", "/policies/parity/drawn", {"pattern": "^z", "definition": {"max-length": 5}}),
    put("policy-again", "/policies/parity/drawn", {"pattern": "^z", "definition": {"max-length": 6}, "priority": 2}),
    get("policy-after", "/policies/parity/drawn"),
    put("policy-no-pattern", "/policies/parity/wrong", {"definition": {"max-length": 5}}),
    put("policy-no-definition", "/policies/parity/wrong", {"pattern": "x"}),
    put("policy-empty-definition", "/policies/parity/wrong", {"pattern": "x", "definition": {}}),
    put("policy-bad-regex", "/policies/parity/wrong", {"pattern": "(", "definition": {"max-length": 5}}),
    put("policy-unknown-key", "/policies/parity/wrong", {"pattern": "x", "definition": {"max-fun": 5}}),
    put("policy-bad-value", "/policies/parity/wrong", {"pattern": "x", "definition": {"max-length": "many"}}),
    put("policy-bad-ttl", "/policies/parity/wrong", {"pattern": "x", "definition": {"message-ttl": -1}}),
    put("policy-bad-overflow", "/policies/parity/wrong", {"pattern": "x", "definition": {"overflow": "explode"}}),
    put(
        "policy-bad-apply-to",
        "/policies/parity/wrong",
        {"pattern": "x", "definition": {"max-length": 5}, "apply-to": "everyone"},
    ),
    put(
        "policy-bad-priority",
        "/policies/parity/wrong",
        {"pattern": "x", "definition": {"max-length": 5}, "priority": "high"},
    ),
    put("policy-absent-vhost", "/policies/none/wrong", {"pattern": "x", "definition": {"max-length": 5}}),
    Request("policy-not-json", "PUT", "/policies/parity/wrong", content=_NOT_JSON),
    delete("policy-delete", "/policies/parity/drawn"),
    delete("policy-delete-again", "/policies/parity/drawn"),
    put("operator-policy-new", "/operator-policies/parity/drawn", {"pattern": "^z", "definition": {"max-length": 5}}),
    put(
        "operator-policy-key-not-allowed",
        "/operator-policies/parity/wrong",
        {"pattern": "^z", "definition": {"dead-letter-exchange": "x"}},
    ),
    delete("operator-policy-delete", "/operator-policies/parity/drawn"),
    put("global-parameter-new", "/global-parameters/drawn", {"value": [1, 2]}),
    put("global-parameter-again", "/global-parameters/drawn", {"value": {"a": 1}}),
    put("global-parameter-no-value", "/global-parameters/wrong", {}),
    delete("global-parameter-delete", "/global-parameters/drawn"),
    delete("global-parameter-delete-again", "/global-parameters/drawn"),
    put("parameter-unknown-component", "/parameters/no-such/parity/p", {"value": {}}),
    put("parameter-no-value", "/parameters/vhost-limits/parity/limits", {}),
    put("cluster-name-no-name", "/cluster-name", {}),
)

DEFINITIONS: Final = (
    post("definitions-empty", "/definitions", {}),
    post(
        "definitions-queue",
        "/definitions/parity",
        {"queues": [{"name": "imported", "durable": True, "auto_delete": False, "arguments": {}}]},
    ),
    post("definitions-bad-type", "/definitions", {"queues": 1}),
    post("definitions-incomplete", "/definitions", {"queues": [{"name": "q"}]}),
    post("definitions-absent-vhost", "/definitions/none", {"queues": []}),
    post(
        "definitions-in-absent-vhost",
        "/definitions",
        {"queues": [{"name": "q", "vhost": "none", "durable": True, "auto_delete": False, "arguments": {}}]},
    ),
    Request("definitions-not-json", "POST", "/definitions", content=_NOT_JSON, headers=_JSON),
    Request("definitions-list", "POST", "/definitions", content=b"[]", headers=_JSON),
)

REST: Final = (
    get("health-bad-port", "/health/checks/port-listener/abc"),
    get("health-bad-unit", "/health/checks/certificate-expiration/1/fortnights"),
    get("health-bad-within", "/health/checks/certificate-expiration/x/days"),
    post("rebalance", "/rebalance/queues", {}),
    delete("auth-attempts-delete", "/auth/attempts/{node}"),
    put("feature-flag-enable", "/feature-flags/quorum_queue/enable", {"name": "quorum_queue"}),
    put("feature-flag-unknown", "/feature-flags/no_such_flag/enable", {"name": "no_such_flag"}),
    delete("delete-in-use", "/queues/parity/plain?if-unused=true"),
    delete("delete-not-empty", "/queues/parity/filled?if-empty=true"),
    delete("delete-exchange-in-use", "/exchanges/parity/a-fanout?if-unused=true"),
    delete("delete-exclusive", "/queues/parity/{exclusive}"),
    delete("delete-queue", "/queues/parity/drawn"),
    delete("delete-queue-again", "/queues/parity/drawn"),
    delete("delete-exchange", "/exchanges/parity/x-drawn"),
    delete("delete-exchange-again", "/exchanges/parity/x-drawn"),
    Request("close-connection", "DELETE", "/connections/{connection}", headers={"X-Reason": "told so"}),
    delete("close-connection-absent", "/connections/none"),
    delete("close-connections-user", "/connections/username/pa-plain"),
    delete("reset", "/reset"),
)

CHANGES: Final = (*QUEUES, *EXCHANGES, *BINDINGS, *MESSAGES, *ACCOUNTS, *POLICIES, *DEFINITIONS, *REST)
