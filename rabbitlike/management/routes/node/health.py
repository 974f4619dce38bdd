"""Health checks: 200 with `{"status": "ok"}`, or 503 with the problem. parity: any management user may call them."""

from __future__ import annotations

from typing import Final

from rabbitlike.broker.accounts import access
from rabbitlike.broker.alarms import DISK, MEMORY
from rabbitlike.broker.publishing import verbs
from rabbitlike.management.auth import Member
from rabbitlike.management.context import Context, Here
from rabbitlike.management.http.errors import bad_request, closing, not_found
from rabbitlike.management.http.replies import Reply
from rabbitlike.management.http.routing import Router
from rabbitlike.management.messages import to_properties
from rabbitlike.management.node.certificates import expiring
from rabbitlike.management.node.listeners import canonical, listeners_of
from rabbitlike.management.turns import check_unblocked, turn
from rabbitlike.protocol.tables import Table

router = Router()

_RESOURCES: Final = {MEMORY: "memory", DISK: "disk space"}
_DAY_S: Final = 86_400
_UNITS_S: Final = {"days": _DAY_S, "weeks": 7 * _DAY_S, "months": 28 * _DAY_S, "years": 365 * _DAY_S}
_LONGEST: Final = 18  # digits
#: Name of the queue that the aliveness test declares. parity
TESTED_QUEUE: Final = "aliveness-test"


def ok(**more: object) -> Reply:
    return Reply({"status": "ok", **more})


def failed(reason: str, **more: object) -> Reply:
    return Reply({"status": "failed", "reason": reason, **more}, 503)


def _alarms(here: Context, where: str) -> Reply:
    raised = [{"resource": _RESOURCES.get(each, each), "node": here.node} for each in sorted(here.broker.alarms.active)]
    return failed(f"There are alarms in effect {where}", alarms=raised) if raised else ok()


@router.get("/health/checks/alarms")
async def alarms(here: Here, caller: Member) -> Reply:
    return _alarms(here, "in the cluster")


@router.get("/health/checks/local-alarms")
async def local_alarms(here: Here, caller: Member) -> Reply:
    return _alarms(here, "on the node")


@router.get("/health/checks/port-listener/{port:name}")
async def port_listener(port: str, here: Here, caller: Member) -> Reply:
    if not port.isascii() or not port.isdigit() or len(port) > _LONGEST:
        raise bad_request("Invalid port")
    ports = [each.port for each in listeners_of(here)]
    if int(port) in ports:
        return ok(port=int(port))
    return failed("No active listener", missing=int(port), ports=ports)


@router.get("/health/checks/protocol-listener/{protocols:name}")
async def protocol_listener(protocols: str, here: Here, caller: Member) -> Reply:
    asked = [canonical(each) for each in protocols.split(",")]
    active = list(dict.fromkeys(each.protocol for each in listeners_of(here)))
    missing = [each for each in asked if each not in active]
    if missing:
        # parity: up to 3.x a single name, since 4.x a list.
        return failed("No active listener", missing=missing[0] if len(asked) == 1 else missing, protocols=active)
    return ok(protocol=asked[0]) if len(asked) == 1 else ok(protocols=active)


@router.get("/health/checks/certificate-expiration/{within:name}/{unit:name}")
async def certificate_expiration(within: str, unit: str, here: Here, caller: Member) -> Reply:
    if not within.isascii() or not within.isdigit() or len(within) > _LONGEST:
        raise bad_request("Invalid expiration value.")
    unit_s = _UNITS_S.get(unit.lower())
    if unit_s is None:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    expired = await expiring(here, int(within) * unit_s)
    return failed("Certificates expiring", expired=expired) if expired else ok()


@router.get("/health/checks/virtual-hosts")
async def virtual_hosts(here: Here, caller: Member) -> Reply:
    """ok if there is a vhost. A single vhost cannot be down, unlike in RabbitMQ."""
    return ok() if here.broker.vhosts else failed("Some virtual hosts are down", **{"virtual-hosts": []})


@router.get("/health/checks/node-is-quorum-critical")
@router.get("/health/checks/node-is-mirror-sync-critical")
async def node_is_critical(caller: Member) -> Reply:
    return ok(reason="single node cluster")


@router.get("/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern:name}")
@router.get("/health/checks/quorum-queues-without-elected-leaders/all-vhosts")
async def leaders_everywhere(caller: Member) -> Reply:
    """Always ok: every queue is its own leader."""
    return ok()


@router.get("/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost:name}/pattern/{pattern:name}")
@router.get("/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost:name}")
async def leaders(vhost: str, here: Here, caller: Member) -> Reply:
    if vhost not in here.broker.vhosts:
        raise not_found()
    return ok()


@router.get("/health/checks/metadata-store/initialized/with-data")
@router.get("/health/checks/metadata-store/initialized")
@router.get("/health/checks/is-in-service")
@router.get("/health/checks/reached-target-cluster-size")
async def always(caller: Member) -> Reply:
    """Always ok: a broker that answers has finished recovery, and the cluster has one node."""
    return ok()


@router.get("/health/checks/below-node-connection-limit")
async def below_node_connection_limit(here: Here, caller: Member) -> Reply:
    return ok() if _has_room(here) else failed("node connection limit is reached")


@router.get("/health/checks/ready-to-serve-clients")
async def ready_to_serve_clients(here: Here) -> Reply:
    """For probes: the only check that needs no password."""
    if not any(each.protocol in ("amqp", "amqp/ssl") for each in listeners_of(here)):
        return failed("no active listeners for AMQP/AMQPS")
    if not _has_room(here):
        return failed("node connection limit is reached", connections=len(here.broker.connections))
    return ok()


def _has_room(here: Context) -> bool:
    limit = here.settings.connection_max
    return limit == 0 or len(here.broker.connections) < limit


# Older paths


@router.get("/healthchecks/node/{node:name}")
async def named_node(node: str, here: Here, caller: Member) -> Reply:
    if node != here.node:
        raise not_found()
    return await node_check(here, caller)


@router.get("/healthchecks/node")
async def node_check(here: Here, caller: Member) -> Reply:
    raised = sorted(here.broker.alarms.active)
    return failed(f"resource alarm(s) in effect:[{','.join(raised)}]") if raised else ok()


@router.get("/aliveness-test/{vhost:name}")
async def aliveness_test(vhost: str, caller: Member) -> Reply:
    """Declare a queue, publish a message to it and get it. parity: the queue remains for the next test."""
    home = caller.vhost(vhost)
    broker = caller.context.broker
    check_unblocked(broker)
    with closing():
        access.declare_queue(caller.permit_in(home), home, TESTED_QUEUE, Table())
        with turn(broker):
            queue = home.declare_queue(TESTED_QUEUE)
            verbs.publish(home, "", TESTED_QUEUE, to_properties({}), b"test_message", caller.user)
            got = verbs.fetch(queue, 1, caller.user, no_ack=True)
    return ok() if got else failed("aliveness-test queue is empty")
