"""What every language's program is asked to show, by name. The names are the same everywhere, and so is what they mean.

A check that is fulfilled with a client's own notion of it (bunny's `ack`, amqplib's `sendToQueue`) is what is wanted:
the programs are written as that client's users would.
"""

from typing import Final

TOGETHER: Final = {
    # the connection
    "handshake": "the server's properties name RabbitMQ, a version and the capabilities clients look for",
    "login-refused": "a wrong password is told as such, ACCESS_REFUSED or as the client words it",
    "vhost-not-found": "a vhost that is not there: 530 NOT_ALLOWED while the connection is opened",
    "connection-error": "a consumer tag used twice closes the connection, 530 NOT_ALLOWED, and the client tells of it; "
    "where it sees to tags itself, an immediate publish does, 540 NOT_IMPLEMENTED",
    "tls": "over TLS, with the authority checked: a message goes and comes back",
    "small-frames": "frames of 4096 bytes, agreed on when connecting; a body takes as many as it needs, both ways",
    # what is declared
    "queues": "declared with a name of the server's, counted, purged, deleted; passive declares find it",
    "exchanges": "direct, fanout, topic and headers route as their kind says; unbound and deleted they do not",
    "exchange-to-exchange": "an exchange bound to an exchange, and unbound again",
    "alternate-exchange": "what an exchange has no queue for goes to its alternate",
    "names": "a queue, an exchange and a routing key of 255 bytes beyond ASCII",
    # what is in a message
    "properties": "every property of a message comes back as it was sent",
    "headers": "every type of header the client can send comes back with type and value",
    "empty-body": "a body of no bytes",
    "large-body": "5 MB, which is many frames, byte for byte",
    "interleaved": "bodies of many frames on eight channels at once, and none is mixed up with another",
    # consuming
    "acks": "acked messages are gone, one by one and all up to one; unacked ones return when the channel is closed",
    "nack-requeue": "nacked with requeue it comes again, flagged as redelivered",
    "reject": "rejected without requeue it is gone, with requeue it comes again",
    "recover": "basic.recover: what is unacked is delivered anew, flagged as redelivered",
    "prefetch": "never more unacked than asked for, and the next one once one is acked",
    "get": "basic.get: a message, with the number left where the client tells it, then none",
    "cancel": "a consumer is told when its queue is deleted",
    # publishing
    "confirms": "a thousand confirmed without waiting for each",
    "nacks": "a full queue that rejects publishes is told to the publisher",
    "returns": "a mandatory message no queue wants comes back with 312 NO_ROUTE and its body",
    "tx": "what is rolled back was never published; what is committed was",
    "rpc": "direct reply-to: a request, and its answer with no queue for it",
    # what queues do
    "dead-letters": "rejected and expired messages are found elsewhere, with an x-death the client can read",
    "quorum": "a quorum queue, which counts in x-delivery-count how often a message came back",
    "priorities": "the higher priority is delivered first",
    "ttl": "messages of a queue's TTL and of their own go when their time is up",
    # when something is wrong, and the connection lives on
    "not-found": "404 NOT_FOUND for a queue that is not there, and for an exchange published to",
    "precondition-failed": "406 PRECONDITION_FAILED for a queue declared otherwise, with what differs",
    "access-refused": "403 ACCESS_REFUSED for a name of the broker's own, and for a queue with an exclusive consumer",
    "resource-locked": "405 RESOURCE_LOCKED for another connection's exclusive queue",
}

APART: Final = {
    # each in a run of its own beside the others: they wait, or want a broker that does something to them
    "heartbeats": "beats of a second, nothing else for several of them, and the connection lives",
    "blocked": "connection.blocked, with the reason, from a broker that is low on memory",
    "recovery": "the broker is restarted, and the client goes on: it connects, declares and consumes again, by "
    "itself or as its documentation says",
}

CHECKS: Final = TOGETHER | APART
