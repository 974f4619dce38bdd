"""Reads that are refused, or nearly: who may not, what is not there, pages that cannot be, wrong methods."""

from typing import Final

from interop.management.asking import Request, delete, get, post, put
from interop.management.topology import PASSWORD

MONITOR: Final = ("pa-monitoring", PASSWORD)
POLICYMAKER: Final = ("pa-policymaker", PASSWORD)
MEMBER: Final = ("pa-management", PASSWORD)
PLAIN: Final = ("pa-plain", PASSWORD)
LIMITED: Final = ("pa-limited", PASSWORD)
MESSAGE: Final = {"properties": {}, "routing_key": "a", "payload": "x", "payload_encoding": "string"}
TAKE: Final = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}

ENTRY: Final = (
    get("no-credentials", "/overview", None),
    get("wrong-password", "/overview", ("guest", "wrong")),
    get("unknown-user", "/overview", ("nobody-at-all", "x")),
    get("no-tag", "/overview", PLAIN),
    get("no-tag-whoami", "/whoami", PLAIN),
    get("user-without-password", "/overview", ("pa-nobody", "")),
    Request("bad-basic", "GET", "/overview", auth=None, headers={"Authorization": "Basic !!!"}),
    Request("bad-scheme", "GET", "/overview", auth=None, headers={"Authorization": "Bearer abc"}),
    get("member-overview", "/overview", MEMBER),
    get("member-whoami", "/whoami", MEMBER),
    get("member-nodes", "/nodes", MEMBER),
    get("member-users", "/users", MEMBER),
    get("member-vhosts", "/vhosts", MEMBER),
    get("member-connections", "/connections", MEMBER),
    get("member-channels", "/channels", MEMBER),
    get("member-queues", "/queues", MEMBER),
    get("member-queues-of-forbidden-vhost", "/queues/%2F", MEMBER),
    get("member-queue-of-forbidden-vhost", "/queues/%2F/none", MEMBER),
    get("member-others-connection", "/connections/{connection}", MEMBER),
    get("member-policies", "/policies", MEMBER),
    get("member-permissions", "/permissions", MEMBER),
    get("member-definitions", "/definitions", MEMBER),
    get("member-global-parameters", "/global-parameters", MEMBER),
    get("member-vhost-limits", "/vhost-limits", MEMBER),
    get("member-aliveness", "/aliveness-test/parity", MEMBER),
    get("member-health", "/health/checks/alarms", MEMBER),
    get("member-feature-flags", "/feature-flags", MEMBER),
    put("member-puts-policy", "/policies/parity/p", {"pattern": "x", "definition": {"max-length": 1}}, MEMBER),
    put("member-puts-vhost", "/vhosts/new-one", {}, MEMBER),
    put("member-puts-user", "/users/new-one", {"password": "x", "tags": ""}, MEMBER),
    delete("member-closes-others-connection", "/connections/{connection}", MEMBER),
    get("policymaker-policies", "/policies/parity", POLICYMAKER),
    get("policymaker-parameters", "/parameters", POLICYMAKER),
    get("policymaker-nodes", "/nodes", POLICYMAKER),
    put(
        "policymaker-puts-operator-policy",
        "/operator-policies/parity/p",
        {"pattern": "x", "definition": {"max-length": 1}},
        POLICYMAKER,
    ),
    put(
        "policymaker-puts-policy",
        "/policies/parity/by-maker",
        {"pattern": "^z", "definition": {"max-length": 1}},
        POLICYMAKER,
    ),
    delete("policymaker-deletes-policy", "/policies/parity/by-maker", POLICYMAKER),
    get("monitor-nodes", "/nodes", MONITOR),
    get("monitor-connections", "/connections", MONITOR),
    get("monitor-queues", "/queues", MONITOR),
    get("monitor-queues-of-forbidden-vhost", "/queues/%2F", MONITOR),
    get("monitor-users", "/users", MONITOR),
    get("monitor-vhosts", "/vhosts", MONITOR),
    put("no-right-to-configure", "/queues/%2F/others", {}, LIMITED),
    post("no-right-to-publish", "/exchanges/%2F/amq.topic/publish", MESSAGE, LIMITED),
    post("no-right-to-get", "/queues/%2F/others/get", TAKE, LIMITED),
    delete("no-right-to-purge", "/queues/%2F/covered/contents", LIMITED),
    post("no-right-to-bind", "/bindings/%2F/e/amq.topic/q/covered", {"routing_key": "a"}, LIMITED),
    put("monitor-puts-queue-without-permission", "/queues/%2F/q", {}, MONITOR),
)

ABSENT: Final = tuple(
    get(f"absent-{name}", path)
    for name, path in {
        "path": "/no-such-thing",
        "vhost": "/vhosts/none",
        "queues-vhost": "/queues/none",
        "queue": "/queues/parity/none",
        "queue-bindings": "/queues/parity/none/bindings",
        "exchange": "/exchanges/parity/none",
        "exchange-vhost": "/exchanges/none",
        "exchange-source": "/exchanges/parity/none/bindings/source",
        "bindings-vhost": "/bindings/none",
        "bindings-queue": "/bindings/parity/e/a-direct/q/none",
        "binding": "/bindings/parity/e/a-direct/q/plain/none",
        "user": "/users/none",
        "user-permissions": "/users/none/permissions",
        "permission": "/permissions/parity/none",
        "permission-vhost": "/permissions/none/guest",
        "permission-not-given": "/permissions/par%2Fity/pa-plain",
        "topic-permission": "/topic-permissions/parity/none",
        "policy": "/policies/parity/none",
        "policies-vhost": "/policies/none",
        "operator-policy": "/operator-policies/parity/none",
        "parameter": "/parameters/none/parity/none",
        "parameters-component": "/parameters/none",
        "global-parameter": "/global-parameters/none",
        "connection": "/connections/none",
        "connections-user": "/connections/username/none",
        "connection-channels": "/connections/none/channels",
        "channel": "/channels/none",
        "consumers-vhost": "/consumers/none",
        "node": "/nodes/none@localhost",
        "definitions-vhost": "/definitions/none",
        "vhost-limits": "/vhost-limits/none",
        "user-limits": "/user-limits/none",
        "aliveness": "/aliveness-test/none",
        "vhost-connections": "/vhosts/none/connections",
        "vhost-permissions": "/vhosts/none/permissions",
        "health-check": "/health/checks/none",
    }.items()
)

PAGING: Final = tuple(
    get(f"paging-{name}", path)
    for name, path in {
        "zero": "/queues?page=0",
        "negative": "/queues?page=-1",
        "text": "/queues?page=abc",
        "beyond": "/queues?page=1000",
        "size-zero": "/queues?page=1&page_size=0",
        "size-501": "/queues?page=1&page_size=501",
        "size-500": "/queues?page=1&page_size=500&columns=name&name=plain",
        "size-text": "/queues?page=1&page_size=x",
        "bad-regex": "/queues?page=1&name=%28&use_regex=true",
        "nothing-found": "/queues?page=1&name=nothing-is-named-so",
        "bindings": "/bindings?page=1&page_size=2&columns=vhost,source,destination",
        "users": "/users?page=1&page_size=2&columns=name",
        "vhosts": "/vhosts?page=1&page_size=1&columns=name",
        "unknown-sort": "/queues/parity?sort=no_such_field&columns=name",
        "unknown-column": "/queues/parity?columns=no_such_field",
        "bad-age": "/queues/parity?columns=name&msg_rates_age=x&msg_rates_incr=5",
        "many-samples": "/queues/parity?columns=name&msg_rates_age=100000&msg_rates_incr=1",
    }.items()
)

METHODS: Final = (
    Request("method-post-overview", "POST", "/overview", {}),
    Request("method-delete-queues", "DELETE", "/queues"),
    Request("method-put-whoami", "PUT", "/whoami", {}),
    Request("method-patch-queue", "PATCH", "/queues/parity/plain", {}),
    Request("method-get-contents", "GET", "/queues/parity/plain/contents"),
    Request("method-get-get", "GET", "/queues/parity/plain/get"),
    Request("method-options-queue", "OPTIONS", "/queues/parity/plain"),
    Request("method-head-queues", "HEAD", "/queues/parity"),
)

REFUSALS: Final = (*ENTRY, *ABSENT, *PAGING, *METHODS)
