"""Numbers of the protocol that the hot modules share.

Never compiled: a number declared in a compiled module is a C variable, which no other module could import.
"""

#: Frame types. DISCARD is not one of them: a closing channel expects nothing.
METHOD_FRAME = 1
HEADER_FRAME = 2
BODY_FRAME = 3
HEARTBEAT_FRAME = 8
DISCARD = 0

FRAME_END = 0xCE
#: Octets around a frame's payload: type, channel and size before it, the end octet after it.
FRAME_OVERHEAD = 8

BASIC_CLASS = 60
#: Class id and method id in one number.
BASIC_PUBLISH = 0x003C0028
BASIC_RETURN = 0x003C0032
BASIC_DELIVER = 0x003C003C
BASIC_GET_OK = 0x003C0047
BASIC_ACK = 0x003C0050
BASIC_REJECT = 0x003C005A
BASIC_NACK = 0x003C0078

# Property flags: bits of the first flag word, in wire order from the highest down. Bit 0 announces another word.
CONTENT_TYPE = 0x8000
CONTENT_ENCODING = 0x4000
HEADERS = 0x2000
DELIVERY_MODE = 0x1000
PRIORITY = 0x0800
CORRELATION_ID = 0x0400
REPLY_TO = 0x0200
EXPIRATION = 0x0100
MESSAGE_ID = 0x0080
TIMESTAMP = 0x0040
TYPE = 0x0020
USER_ID = 0x0010
APP_ID = 0x0008
CLUSTER_ID = 0x0004

#: A capability of clients that other brokers do not have: tx.commit is refused if a mandatory publish in it is
#: unroutable.
TX_REFUSE_UNROUTABLE = "tx_refuse_unroutable"
