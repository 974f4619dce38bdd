"""What becomes of a message that was handed out."""

from enum import Enum


class Settle(Enum):
    """What a client decided about a delivery."""

    ACK = "ack"
    REJECT = "reject"
    #: Back to the queue: by basic.reject, and by basic.nack.
    REQUEUE = "requeue"
    RETURN = "return"
