"""Where we answer otherwise than RabbitMQ 3.10, and why. Everything else is a defect."""

from typing import Final

from interop.management.shapes import Allowed

ERLANG: Final = "tells of Erlang's processes, which are not here"
NEWER: Final = "RabbitMQ's since 3.11 to 4.x, which we follow"
OURS: Final = "how we are made"
QUORUM: Final = "a quorum queue shows what every queue shows, and nothing of Raft"

#: Fields that differ.
FIELDS: Final = (
    Allowed("*", "*reductions *reductions_details *garbage_collection *backing_queue_status", ERLANG, "missing"),
    Allowed("*", "*consumer_capacity *consumer_utilisation", "a fraction also when it is 0: clients decode one type"),
    # What a node is made of.
    Allowed("*overview* *node*", "*contexts.* *listeners.*", OURS),
    Allowed("*overview*", "sample_retention_policies.basic", "an hour of history is kept of totals alone"),
    Allowed("*overview*", "cluster_tags node_tags default_queue_type is_op_policy_updating_enabled", NEWER, "more"),
    Allowed("*overview*", "rabbitlike_version *messages_delayed", "our own", "more"),
    Allowed("overview-samples", "queue_totals.*", "RabbitMQ answers from the last sample"),
    Allowed("overview-columns", "queue_totals.*", "RabbitMQ answers more than was asked for", "missing"),
    Allowed("cluster-name", "name", "each has its own"),
    Allowed("*node*", "*being_drained", NEWER, "more"),
    Allowed("node-with-memory", "binary.*", ERLANG, "missing"),
    Allowed("feature-flags", "*", NEWER, "more"),
    # Definitions carry all that 4.x puts into them, so that nothing is lost on the way there.
    Allowed(
        "definitions*", "explanation original_* rabbitmq_definition_format product_* rabbitmq_version", NEWER, "more"
    ),
    Allowed("definitions*", "queues.type", NEWER, "more"),
    Allowed("definitions", "vhosts.description vhosts.limits vhosts.metadata vhosts.tags", NEWER, "more"),
    Allowed("definitions-vhost", "description limits metadata tags default_queue_type", NEWER, "more"),
    Allowed("definitions-vhost", "*.vhost", "a vhost's definitions can be taken in by another", "missing"),
    # Users and vhosts.
    Allowed("*whoami", "is_internal_user", NEWER, "more"),
    Allowed("paging-users", "*", NEWER),
    Allowed("auth", "*", "describes OAuth, which there is none of, as RabbitMQ 4 does"),
    Allowed("*vhost*", "*protected_from_deletion", NEWER, "more"),
    Allowed("*vhost*", "*messages* *recv_oct* *send_oct*", "there from the start, not from the first sample", "more"),
    # Connections and queues.
    Allowed(
        "*connections*",
        "*ssl_* *peer_cert_*",
        "empty text without TLS, as RabbitMQ says of one connection; null in lists",
    ),
    Allowed(
        "*channel* *exchange* *queue*",
        "incoming outgoing deliveries publishes",
        "RabbitMQ lists pairs where its rates_mode is detailed; ours always is",
    ),
    Allowed("*queues*", "*owner_pid_details *idle_since", "in lists, too", "more"),
    Allowed("*queue*", "*x_stats* *priorities* *messages_delayed*", "our own", "more"),
    Allowed(
        "queues-without-stats", "*exclusive *node *leader *members *online", "the same fields for all kinds of queues"
    ),
    Allowed("*queue*", "*open_files *single_active_consumer_ctag", QUORUM, "missing"),
    Allowed(
        "*queue*",
        "*consumer_tag *head_message_timestamp *_paged_out *_ram *idle_since *recoverable_slaves",
        QUORUM,
        "more",
    ),
)

#: Requests answered with another status: ours, and why. Where RabbitMQ stumbles (500) we refuse; not listed.
STATUSES: Final[dict[str, tuple[int, str]]] = {
    "bad-basic": (401, "who cannot be read has not logged in"),
    "absent-queue-bindings": (404, "RabbitMQ makes up the default binding of a queue that is not there"),
    "publish-properties-list": (200, "an empty list is an empty object, as it is everywhere else"),
    "publish-absent-exchange": (404, NEWER),
    "publish-absent-vhost": (404, NEWER),
    "user-unknown-algorithm": (400, "nobody could log in with it"),
}

_REGEX: Final = "what is wrong with a regular expression is said as Python's engine says it"
_ESCAPED: Final = "RabbitMQ escapes < and > for its own web page"

#: Refusals in other words, and why.
TEXTS: Final[dict[str, str]] = {
    "no-right-to-publish": NEWER,
    "no-right-to-get": NEWER,
    "take-absent-queue": NEWER,
    "policy-bad-apply-to": NEWER,
    "definitions-in-absent-vhost": NEWER,
    "definitions-incomplete": "says what is incomplete",
    "definitions-not-json": "the same words as everywhere",
    "definitions-list": "the same words as everywhere",
    "queue-arguments-not-an-object": "RabbitMQ shows its stack",
    "exchange-unknown-type": "the same words as over AMQP",
    "user-bad-hash": "the same words as in definitions",
    "paging-bad-regex": _REGEX,
    "permission-bad-regex": _REGEX,
    "topic-permission-bad": _REGEX,
    "policy-unknown-key": _ESCAPED,
    "policy-bad-value": _ESCAPED,
    "policy-bad-overflow": _ESCAPED,
    "policy-bad-priority": _ESCAPED,
}
