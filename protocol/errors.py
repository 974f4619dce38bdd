"""The AMQP 0-9-1 error: a reply code and a text for the client.

The code alone determines whether it closes the channel or the connection (parity: as in RabbitMQ's reply-code table),
not the place that raised it. Raise it with the functions here: `raise not_found("no queue 'q' in vhost '/'")`.
"""

from typing import Final

REPLY_TEXT_MAX: Final = 255
_DOTS: Final = "..."

NAMES: Final[dict[int, str]] = {
    311: "CONTENT_TOO_LARGE",
    312: "NO_ROUTE",
    313: "NO_CONSUMERS",
    320: "CONNECTION_FORCED",
    402: "INVALID_PATH",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}

# Soft errors close the channel, all others the connection.
SOFT: Final = frozenset({311, 312, 313, 403, 404, 405, 406})


class AmqpError(Exception):
    """A protocol error; the session adds the ids of the failing method."""

    def __init__(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.class_id = class_id
        self.method_id = method_id

    @property
    def name(self) -> str:
        return NAMES.get(self.code, "INTERNAL_ERROR")

    @property
    def is_hard(self) -> bool:
        return self.code not in SOFT

    @property
    def reply_text(self) -> str:
        """`CODE_NAME - explanation`, short enough for a shortstr."""
        return cut_to_shortstr(f"{self.name} - {self.text}")

    def __str__(self) -> str:
        return f"{self.code} {self.reply_text}"


def cut_to_shortstr(text: str) -> str:
    """`text` if it fits 255 octets; otherwise its start and three dots, cut between characters."""
    octets = text.encode("utf-8", "surrogateescape")
    if len(octets) <= REPLY_TEXT_MAX:
        return text
    longest = end = REPLY_TEXT_MAX - len(_DOTS)
    # A character has at most four octets; more than three continuation octets are not UTF-8 and may be cut anywhere.
    while end > longest - 3 and octets[end] & 0xC0 == 0x80:
        end -= 1
    return octets[:end].decode("utf-8", "surrogateescape") + _DOTS


def content_too_large(text: str) -> AmqpError:
    return AmqpError(311, text)


def no_route(text: str) -> AmqpError:
    return AmqpError(312, text)


def no_consumers(text: str) -> AmqpError:
    return AmqpError(313, text)


def connection_forced(text: str) -> AmqpError:
    return AmqpError(320, text)


def invalid_path(text: str) -> AmqpError:
    return AmqpError(402, text)


def access_refused(text: str) -> AmqpError:
    return AmqpError(403, text)


def not_found(text: str) -> AmqpError:
    return AmqpError(404, text)


def resource_locked(text: str) -> AmqpError:
    return AmqpError(405, text)


def precondition_failed(text: str) -> AmqpError:
    return AmqpError(406, text)


def frame_error(text: str) -> AmqpError:
    return AmqpError(501, text)


def syntax_error(text: str) -> AmqpError:
    return AmqpError(502, text)


def command_invalid(text: str) -> AmqpError:
    return AmqpError(503, text)


def channel_error(text: str) -> AmqpError:
    return AmqpError(504, text)


def unexpected_frame(text: str) -> AmqpError:
    return AmqpError(505, text)


def resource_error(text: str) -> AmqpError:
    return AmqpError(506, text)


def not_allowed(text: str) -> AmqpError:
    return AmqpError(530, text)


def not_implemented(text: str) -> AmqpError:
    return AmqpError(540, text)


def internal_error(text: str) -> AmqpError:
    return AmqpError(541, text)
