"""The rows of policy keys that are not queue arguments: for exchanges, mirrors, members and other nodes.

parity: keys and texts are RabbitMQ's, of 3.x and 4.x together; on one node all except the alternate exchange have no
effect.
"""

from typing import Final

from rabbitlike.broker.queue_settings import policy_checks as policies
from rabbitlike.broker.queue_settings.setting import CLASSIC, LARGER, QUORUM, Origin, Policy, Setting

EXCHANGES: Final = (
    Setting(
        name="alternate-exchange",
        origin=Origin.RABBITMQ,
        text="The [exchange](exchanges.md) for messages that no queue receives.",
        exchanges=True,
        policy=Policy(
            check=policies.string,
            refusal="is not a valid alternate exchange name",
            change="Applies to the next publish.",
        ),
    ),
)

FEDERATION: Final = (
    Setting(
        name="federation-upstream",
        origin=Origin.RABBITMQ,
        exchanges=True,
        policy=Policy(check=policies.string, refusal="is not a valid federation upstream"),
    ),
    Setting(
        name="federation-upstream-set",
        origin=Origin.RABBITMQ,
        exchanges=True,
        policy=Policy(check=policies.string, refusal="is not a valid federation upstream set"),
    ),
    Setting(
        name="federation-upstream-pattern",
        origin=Origin.RABBITMQ,
        exchanges=True,
        policy=Policy(check=policies.string, refusal="is not a valid federation upstream pattern"),
    ),
)

MIRRORS: Final = (
    Setting(
        name="ha-mode",
        origin=Origin.RABBITMQ,
        types=CLASSIC,
        policy=Policy(check=policies.one_of("all", "exactly", "nodes"), refusal="is not a valid ha-mode value"),
    ),
    Setting(
        name="ha-params",
        origin=Origin.RABBITMQ,
        types=CLASSIC,
        policy=Policy(check=policies.anything, refusal="is not a valid ha-params value"),
    ),
    Setting(
        name="ha-promote-on-failure",
        origin=Origin.RABBITMQ,
        types=CLASSIC,
        policy=Policy(
            check=policies.one_of("always", "when-synced"), refusal="is not a valid ha-promote-on-failure value"
        ),
    ),
    Setting(
        name="ha-promote-on-shutdown",
        origin=Origin.RABBITMQ,
        types=CLASSIC,
        policy=Policy(
            check=policies.one_of("always", "when-synced"), refusal="is not a valid ha-promote-on-shutdown value"
        ),
    ),
    Setting(
        name="ha-sync-mode",
        origin=Origin.RABBITMQ,
        types=CLASSIC,
        policy=Policy(check=policies.one_of("automatic", "manual"), refusal="is not a valid ha-sync-mode value"),
    ),
)

MEMBERS: Final = (
    # parity: unlike the keys of mirrors it does not need ha-mode, and a policy with it applies to quorum queues.
    Setting(
        name="ha-sync-batch-size",
        origin=Origin.RABBITMQ,
        policy=Policy(check=policies.above_zero, refusal="is not a valid sync batch size"),
    ),
    Setting(
        name="consumer-disconnected-timeout",
        origin=Origin.RABBITMQ_4,
        policy=Policy(check=policies.not_negative, refusal="is not a valid consumer disconnected timeout"),
    ),
    Setting(
        name="member-placement-tag",
        origin=Origin.RABBITMQ_4,
        policy=Policy(
            check=policies.non_empty_string,
            refusal="is not a valid member-placement-tag value. Must be a non-empty string",
            operator=True,
        ),
    ),
    Setting(
        name="stream-filter-size-bytes",
        origin=Origin.RABBITMQ,
        policy=Policy(check=policies.at_least(16, 255), refusal="is not a valid filter size. Valid range is 16-255"),
    ),
    Setting(
        name="target-group-size",
        origin=Origin.RABBITMQ,
        types=QUORUM,
        policy=Policy(
            check=policies.above_zero,
            refusal="is not a valid qq target count value",
            operator=True,
            with_operator=LARGER,
        ),
    ),
)

POLICY_ONLY: Final = (*EXCHANGES, *FEDERATION, *MIRRORS, *MEMBERS)
