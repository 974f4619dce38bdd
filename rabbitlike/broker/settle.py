"""Ways to settle a delivery."""

from enum import Enum


class Settle(Enum):
    """How a delivery is settled."""

    ACK = "ack"
    REJECT = "reject"
    #: Requeue by basic.reject (REQUEUE) or by basic.nack (RETURN).
    REQUEUE = "requeue"
    RETURN = "return"
