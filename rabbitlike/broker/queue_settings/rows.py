"""The rows of settings that are queue arguments, by topic.

Arguments are checked in this order. parity: RabbitMQ's arguments are in the order of its checks, which determines the
error text if several are invalid.
"""

from __future__ import annotations

from typing import Final

from rabbitlike.broker.policies.webhook_urls import is_web_address
from rabbitlike.broker.queue_settings import argument_checks as arguments
from rabbitlike.broker.queue_settings import policy_checks as policies
from rabbitlike.broker.queue_settings import readers
from rabbitlike.broker.queue_settings.setting import (
    CLASSIC,
    LOWER_LIMIT,
    NO_TYPE,
    QUORUM,
    SMALLER,
    Argument,
    Field,
    Origin,
    Policy,
    Setting,
)
from rabbitlike.broker.queue_settings.settings import QUEUE_TYPES, Overflow
from rabbitlike.broker.schemas.schema import ACTIONS

# Values common to arguments and policies.
_OVERFLOWS: Final = tuple(kind.value for kind in Overflow)
_STRATEGIES: Final = ("at-most-once", "at-least-once")
_PRIORITY_MODES: Final = ("strict", "weighted")
_DEDUPLICATION_KEYS: Final = ("header", "message-id")
_QUEUE_MODES: Final = ("default", "lazy")
_RETRY_TYPES: Final = ("all", "failed", "returned", "disabled")
_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders")

# Fields that several settings are read into.
_WEBHOOK: Final = Field("dead_letter_webhook", readers.webhook)
_WEIGHTS: Final = Field("weights", readers.priority_weights)
_DEDUPLICATION: Final = Field("deduplication", readers.deduplication)
_SCHEMA: Final = Field("schema", readers.schema)
_RETRY: Final = Field("retry", readers.retry)

_DIES: Final = "Applies to messages that die from then on, and to those that are [held](dead-letters.md#at-least-once)."
_ALERTS: Final = "Applies to messages that die from then on."
_SHARES: Final = "At once."
_DEDUPLICATES: Final = "Applies to the next publish."
_CONFORMS: Final = "Applies to the next publish; messages in the queue stay."
_FAILS: Final = (
    "Applies to messages that fail from then on; those that [wait](retries.md#delayed-messages) keep their time."
)

TIMES: Final = (
    Setting(
        name="expires",
        origin=Origin.RABBITMQ,
        text="The broker deletes the queue after this many ms without a consumer, get or declare.",
        argument=Argument(arguments.duration_above_zero),
        policy=Policy(
            check=policies.above_zero,
            refusal="is not a valid queue expiry",
            operator=True,
            with_operator=SMALLER,
            with_argument=SMALLER,
            change="The time starts again, as with every change of a queue's policy.",
        ),
        field=Field("expires_ms", readers.time),
    ),
    Setting(
        name="message-ttl",
        origin=Origin.RABBITMQ,
        text="A message expires after this many ms; with 0 it is delivered at once or not at all.",
        argument=Argument(arguments.duration),
        policy=Policy(
            check=policies.not_negative,
            refusal="is not a valid message TTL",
            operator=True,
            with_operator=SMALLER,
            with_argument=SMALLER,
            change="Applies to messages that arrive from then on; those in the queue keep their TTL.",
        ),
        field=Field("message_ttl_ms", readers.time),
    ),
)

DEAD_LETTERS: Final = (
    Setting(
        name="dead-letter-exchange",
        origin=Origin.RABBITMQ,
        text="The exchange for [dead-lettered messages](dead-letters.md).",
        argument=Argument(arguments.string),
        policy=Policy(check=policies.string, refusal="is not a valid dead letter exchange name", change=_DIES),
        field=Field("dead_letter_exchange", readers.string),
    ),
    Setting(
        name="dead-letter-routing-key",
        origin=Origin.RABBITMQ,
        text="Their routing key; without it they keep their own.",
        argument=Argument(arguments.dead_letter_routing_key),
        policy=Policy(check=policies.string, refusal="is not a valid dead letter routing key", change=_DIES),
        field=Field("dead_letter_routing_key", readers.string),
    ),
    Setting(
        name="dead-letter-auto",
        origin=Origin.OURS,
        text="With `true` and no exchange, dead-lettered messages go to the queue "
        "[`{queue}.dlq`](dead-letters.md#automatic-dead-letter-queues).",
        argument=Argument(arguments.boolean),
        policy=Policy(
            check=policies.boolean,
            refusal="is not a valid dead-letter-auto value. Must be true or false",
            change=_ALERTS,
        ),
        field=Field("dead_letter_auto", readers.switch),
    ),
    Setting(
        name="dead-letter-strategy",
        origin=Origin.RABBITMQ,
        text="`at-most-once` (default), or `at-least-once`: the queue holds dead-lettered messages until a target "
        "queue [confirms them](dead-letters.md#at-least-once).",
        types=QUORUM,
        argument=Argument(arguments.one_of(_STRATEGIES, "invalid_dlx_strategy")),
        policy=Policy(check=policies.one_of(*_STRATEGIES), refusal="is not a valid dead letter strategy", change=_DIES),
        field=Field("dead_letter_strategy", readers.strategy),
    ),
    # No arguments: users who may only declare queues must not make the broker send requests to any address.
    Setting(
        name="dead-letter-webhook",
        origin=Origin.OURS,
        text="The broker posts each dead-lettered message to this [URL](webhooks.md).",
        policy=Policy(check=is_web_address, refusal="is not a valid webhook URL", change=_ALERTS),
        field=_WEBHOOK,
    ),
    Setting(
        name="dlq-webhook",
        origin=Origin.OURS,
        text="The broker posts each dead-lettered message to this [URL](webhooks.md).",
        policy=Policy(check=is_web_address, refusal="is not a valid webhook URL", change=_ALERTS),
        field=_WEBHOOK,
    ),
)

SIZES: Final = (
    Setting(
        name="max-length",
        origin=Origin.RABBITMQ,
        text="The maximum number of ready messages.",
        argument=Argument(arguments.not_negative),
        policy=Policy(
            check=policies.not_negative,
            refusal="is not a valid maximum length",
            operator=True,
            with_operator=SMALLER,
            with_argument=SMALLER,
            change="At once: messages over the limit leave from the head.",
        ),
        field=Field("max_length", readers.integer),
    ),
    Setting(
        name="max-length-bytes",
        origin=Origin.RABBITMQ,
        text="The maximum size of all bodies of ready messages, in bytes.",
        argument=Argument(arguments.not_negative),
        policy=Policy(
            check=policies.not_negative,
            refusal="is not a valid maximum length in bytes",
            operator=True,
            with_operator=SMALLER,
            with_argument=SMALLER,
            change="At once: messages over the limit leave from the head.",
        ),
        field=Field("max_length_bytes", readers.integer),
    ),
    Setting(
        name="max-message-size",
        origin=Origin.OURS,
        text="The maximum size of one body, in bytes. The broker closes a channel that publishes a larger one with "
        "406, and no queue receives the message.",
        argument=Argument(arguments.not_negative),
        policy=Policy(
            check=policies.not_negative,
            refusal="is not a valid maximum message size",
            operator=True,
            with_operator=SMALLER,
            with_argument=SMALLER,
            change="Applies to the next publish.",
        ),
        field=Field("max_message_size", readers.integer),
    ),
    Setting(
        name="max-in-memory-length",
        origin=Origin.RABBITMQ,
        types=QUORUM,
        argument=Argument(arguments.not_negative),
        policy=Policy(
            check=policies.not_negative,
            refusal="is not a valid maximum memory in bytes",
            operator=True,
            with_operator=SMALLER,
        ),
    ),
    Setting(
        name="max-in-memory-bytes",
        origin=Origin.RABBITMQ,
        types=QUORUM,
        argument=Argument(arguments.not_negative),
        policy=Policy(
            check=policies.not_negative,
            refusal="is not a valid maximum memory in bytes",
            operator=True,
            with_operator=SMALLER,
        ),
    ),
)

PRIORITIES: Final = (
    Setting(
        name="max-priority",
        origin=Origin.RABBITMQ,
        text="The highest [priority](priorities.md), at most 255; 9 by default.",
        types=CLASSIC,
        argument=Argument(arguments.highest_priority),
        field=Field("levels", readers.levels),
    ),
    Setting(
        name="default-priority",
        origin=Origin.OURS,
        text="The priority of messages without one: 0, on quorum queues 4.",
        argument=Argument(arguments.highest_priority),
        field=Field("default_priority", readers.default_priority),
    ),
    Setting(
        name="priority-mode",
        origin=Origin.OURS,
        text="`strict` (default) or [`weighted`](priorities.md#weighted-priorities).",
        argument=Argument(arguments.one_of(_PRIORITY_MODES, "\"unsupported priority mode '{}'\"")),
        policy=Policy(
            check=policies.one_of(*_PRIORITY_MODES),
            refusal="is not a valid priority mode",
            operator=True,
            change=_SHARES,
        ),
        field=_WEIGHTS,
    ),
    Setting(
        name="priority-weights",
        origin=Origin.OURS,
        text="The [weights](priorities.md#weighted-priorities) of the priorities, the highest priority first, such as "
        "`50,25,15,7,3`.",
        argument=Argument(arguments.priority_weights),
        policy=Policy(
            check=policies.priority_weights,
            refusal="is not a list of weights from 1 to 10000, the highest level's first",
            operator=True,
            change=_SHARES,
        ),
        field=_WEIGHTS,
    ),
    Setting(
        name="priority-max-wait",
        origin=Origin.OURS,
        text="The queue delivers a message that has waited this many ms first, "
        "[whatever its priority](priorities.md#weighted-priorities).",
        argument=Argument(arguments.duration_above_zero),
        policy=Policy(
            check=policies.above_zero,
            refusal="is not a valid maximum wait",
            operator=True,
            with_argument=SMALLER,
            change=_SHARES,
        ),
        field=Field("priority_max_wait_ms", readers.priority_max_wait),
    ),
)

SCHEMAS: Final = (
    Setting(
        name="schema",
        origin=Origin.OURS,
        text="The [JSON Schema](schemas.md) to which bodies must conform.",
        exchanges=True,
        argument=Argument(arguments.schema),
        policy=Policy(check=policies.schema, refusal="is not a valid JSON Schema", change=_CONFORMS),
        field=_SCHEMA,
    ),
    Setting(
        name="schema-action",
        origin=Origin.OURS,
        text="What happens to messages that do not conform: `nack` (default), `close` or `dead-letter`.",
        exchanges=True,
        argument=Argument(arguments.one_of(ACTIONS, "\"unsupported schema action '{}'\"")),
        policy=Policy(check=policies.one_of(*ACTIONS), refusal="is not a valid schema action", change=_CONFORMS),
        field=_SCHEMA,
    ),
)

DEDUPLICATION: Final = (
    Setting(
        name="message-deduplication",
        origin=Origin.OURS,
        text="With `true` the broker drops [messages whose key it has seen](deduplication.md).",
        exchanges=True,
        argument=Argument(arguments.boolean),
        policy=Policy(check=policies.boolean, refusal="is not a valid message deduplication", change=_DEDUPLICATES),
        field=_DEDUPLICATION,
    ),
    Setting(
        name="cache-size",
        origin=Origin.OURS,
        text="How many keys it remembers: 100000 by default.",
        exchanges=True,
        argument=Argument(arguments.above_zero),
        policy=Policy(check=policies.above_zero, refusal="is not a valid cache size", change=_DEDUPLICATES),
        field=_DEDUPLICATION,
    ),
    Setting(
        name="cache-ttl",
        origin=Origin.OURS,
        text="How many ms it remembers a key: no limit by default.",
        exchanges=True,
        argument=Argument(arguments.duration_above_zero),
        policy=Policy(check=policies.above_zero, refusal="is not a valid cache TTL", change=_DEDUPLICATES),
        field=_DEDUPLICATION,
    ),
    Setting(
        name="deduplication-by",
        origin=Origin.OURS,
        text="The key: `header` (default: the header `x-deduplication-header`) or `message-id`.",
        exchanges=True,
        argument=Argument(arguments.one_of(_DEDUPLICATION_KEYS, "\"unsupported deduplication key '{}'\"")),
        policy=Policy(
            check=policies.one_of(*_DEDUPLICATION_KEYS),
            refusal="is not a valid deduplication key",
            change=_DEDUPLICATES,
        ),
        field=_DEDUPLICATION,
    ),
)

STORAGE: Final = (
    Setting(
        name="overflow",
        origin=Origin.RABBITMQ,
        text="At a length limit `drop-head` (default) drops the oldest message, `reject-publish` refuses the new one, "
        "and `reject-publish-dlx` dead-letters the one it refuses.",
        argument=Argument(arguments.one_of(_OVERFLOWS, "invalid_overflow")),
        policy=Policy(
            check=policies.one_of(*_OVERFLOWS),
            refusal="is not a valid overflow value",
            operator=True,
            over_argument=QUORUM,  # parity
            change="At once. A queue that rejects keeps the messages it has.",
        ),
        field=Field("overflow", readers.overflow),
    ),
    Setting(
        name="queue-mode",
        origin=Origin.RABBITMQ,
        types=CLASSIC,
        argument=Argument(arguments.one_of(_QUEUE_MODES, "\"unsupported queue mode '{}'\"")),
        policy=Policy(check=policies.one_of(*_QUEUE_MODES), refusal="is not a valid queue-mode value"),
    ),
    Setting(
        name="queue-version",
        origin=Origin.RABBITMQ,
        types=CLASSIC,
        argument=Argument(arguments.queue_version),
        policy=Policy(
            check=policies.one_of(1, 2),
            refusal="is not a valid queue-version value",
            operator=True,
            for_any_type=True,  # parity
        ),
    ),
)

DELIVERY: Final = (
    Setting(
        name="single-active-consumer",
        origin=Origin.RABBITMQ,
        text="With `true` [one consumer](consuming.md#one-consumer-at-a-time) receives messages, and the others wait.",
        argument=Argument(arguments.boolean),
        field=Field("single_active_consumer", readers.switch),
    ),
    Setting(
        name="trace",
        origin=Origin.OURS,
        text="Whether the [event log](tracing.md#the-event-log) records the queue's messages.",
        argument=Argument(arguments.boolean),
        policy=Policy(
            check=policies.boolean,
            refusal="is not a valid trace value. Must be true or false",
            change="Applies to events from then on.",
        ),
        field=Field("trace", readers.optional_switch),
    ),
    Setting(
        name="consumer-timeout",
        origin=Origin.RABBITMQ,
        text="A consumer may hold a message for this many ms; then the broker "
        "[closes its channel](consuming.md#acknowledgement-timeouts).",
        argument=Argument(arguments.not_negative, is_compared=False),  # parity
        policy=Policy(
            check=policies.not_negative,
            refusal="is not a valid consumer timeout",
            with_argument=SMALLER,
            change="At once, also for messages that consumers hold.",
        ),
        field=Field("consumer_timeout_ms", readers.integer),
    ),
    Setting(
        name="ack-timeout",
        origin=Origin.OURS,
        text="A consumer may hold a message for this many ms; then the queue [takes it back](retries.md#deadlines).",
        argument=Argument(arguments.duration_above_zero),
        policy=Policy(
            check=policies.above_zero,
            refusal="is not a valid ack timeout",
            operator=True,
            with_argument=SMALLER,
            change="Applies to messages that are delivered from then on.",
        ),
        field=Field("ack_timeout_ms", readers.time),
    ),
)

RETRIES: Final = (
    Setting(
        name="retry-initial",
        origin=Origin.OURS,
        text="The delay in ms before a message that failed is [tried again](retries.md).",
        argument=Argument(arguments.duration_above_zero),
        policy=Policy(check=policies.above_zero, refusal="is not a valid retry delay", operator=True, change=_FAILS),
        field=_RETRY,
    ),
    Setting(
        name="retry-multiplier",
        origin=Origin.OURS,
        text="The factor applied to each delay: 2 by default.",
        argument=Argument(arguments.factor),
        policy=Policy(check=policies.factor, refusal="is not a valid retry multiplier", operator=True, change=_FAILS),
        field=_RETRY,
    ),
    Setting(
        name="retry-max-delay",
        origin=Origin.OURS,
        text="The maximum delay in ms: 5 minutes by default.",
        argument=Argument(arguments.duration_above_zero),
        policy=Policy(
            check=policies.above_zero, refusal="is not a valid maximum retry delay", operator=True, change=_FAILS
        ),
        field=_RETRY,
    ),
    Setting(
        name="retry-timeout",
        origin=Origin.OURS,
        text="The queue gives a message up this many ms after its publish: 3 hours by default, `-1` means never.",
        argument=Argument(arguments.any_integer),
        policy=Policy(check=policies.integer, refusal="is not a valid retry timeout", operator=True, change=_FAILS),
        field=_RETRY,
    ),
    # RabbitMQ 4.3 has these for quorum queues; here a policy with them also applies to classic queues.
    Setting(
        name="delayed-retry-type",
        origin=Origin.RABBITMQ_4,
        text="Which messages wait for a retry, in [RabbitMQ 4.3's words](retries.md#retries): `all`, `failed`, "
        "`returned` or `disabled`.",
        argument=Argument(arguments.one_of(_RETRY_TYPES, "invalid_delayed_retry_type")),
        policy=Policy(
            check=policies.one_of(*_RETRY_TYPES),
            refusal="is not a valid delayed retry type. Must be one of: all, failed, returned, disabled",
            operator=True,
            change=_FAILS,
        ),
        field=_RETRY,
    ),
    Setting(
        name="delayed-retry-min",
        origin=Origin.RABBITMQ_4,
        text="The first delay in ms, by which each further delay is longer.",
        argument=Argument(arguments.above_zero),
        policy=Policy(
            check=policies.above_zero,
            refusal="is not a valid delayed retry minimum delay. Must be a positive integer",
            operator=True,
            with_operator=SMALLER,
            change=_FAILS,
        ),
        field=_RETRY,
    ),
    Setting(
        name="delayed-retry-max",
        origin=Origin.RABBITMQ_4,
        text="The maximum of these delays in ms.",
        argument=Argument(arguments.above_zero),
        policy=Policy(
            check=policies.above_zero,
            refusal="is not a valid delayed retry maximum delay. Must be a positive integer",
            operator=True,
            with_operator=SMALLER,
            change=_FAILS,
        ),
        field=_RETRY,
    ),
)

TYPES: Final = (
    # Streams are not supported yet and are refused like any unknown type.
    Setting(
        name="queue-type",
        origin=Origin.RABBITMQ,
        text="`classic` (default) or [`quorum`](#quorum-queues).",
        argument=Argument(arguments.one_of(QUEUE_TYPES, "\"unsupported queue type '{}'\"")),
        field=Field("queue_type", readers.queue_type),
    ),
    Setting(
        name="quorum-initial-group-size",
        origin=Origin.RABBITMQ,
        types=QUORUM,
        argument=Argument(arguments.above_zero),
    ),
    Setting(
        name="queue-master-locator",
        origin=Origin.RABBITMQ,
        types=CLASSIC,
        argument=Argument(),
        policy=Policy(
            check=policies.one_of("client-local", "min-masters", "random"),
            refusal="invalid queue-master-locator value",
            operator=True,
        ),
    ),
    # parity: RabbitMQ's classic queues refuse the argument; a policy must name classic queues explicitly.
    Setting(
        name="delivery-limit",
        origin=Origin.RABBITMQ,
        text="How often a message may be redelivered before the queue dead-letters or drops it; `-1` means no limit. "
        "Quorum queues have 20 by default, queues with retries 10.",
        types=QUORUM,
        offered=CLASSIC,
        argument=Argument(arguments.any_integer),
        policy=Policy(
            check=policies.integer,
            refusal="is not a valid delivery limit",
            operator=True,
            with_operator=LOWER_LIMIT,
            with_argument=LOWER_LIMIT,
            change="Applies to the next redelivery.",
        ),
        field=Field("delivery_limit", readers.delivery_limit),
    ),
    # parity: before 4.0 RabbitMQ's classic queues refuse it; here they accept it too.
    Setting(
        name="queue-leader-locator",
        origin=Origin.RABBITMQ,
        argument=Argument(arguments.one_of(_LOCATORS, "invalid_queue_locator_arg")),
        policy=Policy(check=policies.one_of(*_LOCATORS), refusal="is not a valid queue leader locator value"),
    ),
    # Arguments of streams, which no queue here has.
    Setting(
        name="max-age",
        origin=Origin.RABBITMQ,
        types=NO_TYPE,
        argument=Argument(),
        policy=Policy(check=policies.max_age, refusal="is not a valid max age"),
    ),
    Setting(
        name="stream-max-segment-size-bytes",
        origin=Origin.RABBITMQ,
        types=NO_TYPE,
        argument=Argument(),
        policy=Policy(check=policies.at_least(0, 3_000_000_000), refusal="is not a valid segment size"),
    ),
    Setting(
        name="initial-cluster-size",
        origin=Origin.RABBITMQ,
        types=NO_TYPE,
        argument=Argument(),
        policy=Policy(check=policies.not_negative, refusal="is not a valid cluster size"),
    ),
)

DECLARED: Final = (
    *TIMES,
    *DEAD_LETTERS,
    *SIZES,
    *PRIORITIES,
    *SCHEMAS,
    *DEDUPLICATION,
    *STORAGE,
    *DELIVERY,
    *RETRIES,
    *TYPES,
)
