"""Where we answer otherwise than RabbitMQ 3.10 on the wire, and why. Everything else is a defect."""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final


@dataclass(frozen=True)
class Rule:
    """A difference of whatever message: the texts are the same once `pattern` is taken out of ours, or theirs. It may
    only be where `beside` is, too."""

    pattern: str
    why: str
    beside: str
    is_theirs: bool = False

    def apply(self, text: str) -> str:
        return re.sub(self.pattern, "", text) if self.beside in text else text


@dataclass(frozen=True)
class Allowed:
    """A difference of one conversation: what they say and what we say there, as regular expressions."""

    conversation: str
    theirs: str
    ours: str
    why: str

    def names(self, conversation: str) -> bool:
        return fnmatchcase(conversation, self.conversation)

    def covers(self, conversation: str, theirs: str, ours: str) -> bool:
        return self.names(conversation) and bool(re.search(self.theirs, theirs)) and bool(re.search(self.ours, ours))


NEWER: Final = "RabbitMQ's since 3.11 to 3.13, which we follow"


def _header(field: str) -> str:
    """This header, and the table if it was alone in it."""
    return rf", headers=\{{{field}\}}(?=\}})|headers=\{{{field}\}}(, )?|, {field}"


EVERYWHERE: Final = (
    Rule(r", 'x-last-death-\w+': S '[^']*'", NEWER, "'x-death'"),
    Rule(
        _header(r"'x-delivery-count': l [1-9]\d*"), "counted by every type of queue, as in quorum queues", "redelivered"
    ),
    Rule(_header("'x-delivery-count': l 0"), "from a quorum queue, before 3.13", "basic.get-ok", is_theirs=True),
)

_WHERE: Final = "says what cannot be decoded; RabbitMQ shows the octets, or stumbles over them"
_SILENT: Final = "told at once; RabbitMQ is silent, and hangs up 3 s later"

CONVERSATIONS: Final[tuple[Allowed, ...]] = (
    # Before and below the methods.
    Allowed("connections.greeted_by_amqp_0_8", "connection.start", "AMQP", "AMQP 0-8 is not spoken"),
    Allowed("connections.tuned", r"^\(gone\)$", "close reply_code=530", _SILENT),
    Allowed("connections.start_ok_too_large", r"^\(gone\)$", "501 .*frame_too_large,4097,4088", _SILENT),
    Allowed("connections.wrong_bad_properties", "541", "501 .*cannot decode content header", _WHERE),
    Allowed("connections.wrong_properties_left_over", "541", "501 .*cannot decode content header", _WHERE),
    Allowed("connections.wrong_bad_table", r"^\(gone\)$", "501 .*cannot decode queue.declare", _WHERE),
    Allowed("connections.wrong_cut_short", "501 .*cannot decode <<", "501 .*cannot decode queue.declare", _WHERE),
    Allowed("connections.wrong_left_over", "501 .*cannot decode <<", "501 .*cannot decode channel.flow", _WHERE),
    Allowed(
        "connections.too_long_a_body", "^$", "501 .*1 more arrived", "RabbitMQ never answers on that channel again"
    ),
    # Exchanges and queues.
    Allowed(
        "exchanges.unknown_types",
        "503 .*(unknown|invalid) exchange type|^$|gone",
        "406 .*(unknown|invalid) exchange type|^$",
        NEWER,
    ),
    Allowed("queue_arguments.quorum_x-delivery-limit", "declare-ok", "expected integer", "such a limit says nothing"),
    Allowed("queue_arguments.x-delivery-limit", "of queue type", "declare-ok|expected integer", "for every queue"),
    Allowed("queue_arguments.x-queue-leader-locator", "of queue type", "406|declare-ok", NEWER),
    # Messages.
    Allowed("publishing.delivery_modes", "406 .*delivery_mode_unknown", "^$", NEWER),
    Allowed("publishing.written_anew", "'L': l ", "'L': L ", "the letter of a type is the one that came"),
    Allowed(
        "publishing.refused", "user_id property", "invalid (expiration|message)", "looked at last, as in RabbitMQ 4"
    ),
    Allowed("consuming.cancel_answered", "503 .*unimplemented|gone", "^$", "taken, as by RabbitMQ 4"),
    Allowed("prefetch.after_get", "^$", "deliver", "RabbitMQ counts what was got, and never takes it off again"),
    Allowed(
        "prefetch.tags_used_again",
        "deliver",
        "^$",
        "RabbitMQ counts the new consumer's prefetch by the old one's acks",
    ),
    Allowed("consuming.consume_arguments", "406 .*'x-cancel-on-ha-failover'", "consume-ok", "unknown to RabbitMQ 4"),
    Allowed(
        "replies.an_answer_that_must_arrive",
        "^(basic.(return|deliver) .* b'answer')?$",
        "^(basic.deliver .* b'answer')?$",
        "delivered and not returned, as in RabbitMQ 4",
    ),
    Allowed("dying.priorities_unasked", "'(low|high)'", "'(low|high)'", "every queue has priorities"),
    Allowed("dying.expired_behind", "message_count=2", "message_count=1", "expires wherever it stands"),
    Allowed("dying.blind_copies", "get-ok", "get-empty", "BCC is forgotten once a message is routed"),
    Allowed("dying.quorum_requeue", "b'1'$", "b'0'$", "to its place, as in RabbitMQ 4, which always has a limit"),
)
