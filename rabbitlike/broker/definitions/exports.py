"""Exports definitions of the broker or of one vhost, part by part.

parity: exclusive queues and predeclared objects (amq.*, the default exchange and its bindings) are omitted; operator
policies and limits of vhosts are exported as parameters. Entries of a single vhost's definitions do not name the vhost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rabbitlike.broker import views
from rabbitlike.broker.policies.keys import OPERATOR_POLICY, POLICY
from rabbitlike.broker.vhost import RESERVED
from rabbitlike.broker.views import View

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.exchanges import Exchange
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.vhost import Vhost


def write(broker: Broker, cluster_name: str, vhost: Vhost | None = None) -> Iterator[tuple[str, object]]:
    """The document's fields in order. Lists are iterators, so that the caller can pause between entries."""
    settings = broker.settings
    yield "rabbit_version", settings.version
    yield "rabbitmq_version", settings.version
    yield "product_name", settings.product
    yield "product_version", settings.version
    vhosts = list(broker.vhosts.values()) if vhost is None else [vhost]
    if vhost is None:
        yield "rabbitmq_definition_format", "cluster"
        yield "original_cluster_name", cluster_name
        yield "explanation", f"Definitions of cluster '{cluster_name}'"
        yield "users", _users(broker)
        yield "vhosts", (_vhost(each) for each in vhosts)
        yield "permissions", _permissions(broker)
        yield "topic_permissions", _topic_permissions(broker)
        yield "parameters", _parameters(broker, vhosts)
        yield "global_parameters", _global_parameters(broker)
        yield "policies", _policies(vhosts)
    else:
        yield "rabbitmq_definition_format", "single_virtual_host"
        yield "original_vhost_name", vhost.name
        yield "explanation", f"Definitions of virtual host '{vhost.name}'"
        yield "metadata", metadata(vhost)
        yield "description", vhost.description
        yield "limits", dict(vhost.limits)
        yield "parameters", _bare(_parameters(broker, vhosts))
        yield "policies", _bare(_policies(vhosts))
    queues, exchanges, bindings = _queues(vhosts), _exchanges(vhosts), _bindings(vhosts)
    yield "queues", queues if vhost is None else _bare(queues)
    yield "exchanges", exchanges if vhost is None else _bare(exchanges)
    yield "bindings", bindings if vhost is None else _bare(bindings)


def _bare(entries: Iterable[View]) -> Iterator[View]:
    """The entries without their vhost."""
    for entry in entries:
        del entry["vhost"]
        yield entry


def _users(broker: Broker) -> Iterator[View]:
    for user in list(broker.users):
        yield {
            "name": user.name,
            "password_hash": user.password_hash,
            "hashing_algorithm": user.hashing_algorithm,
            "tags": sorted(user.tags),
            "limits": dict(user.limits),
        }


def metadata(vhost: Vhost) -> View:
    """The settings of a vhost besides its name."""
    said: View = {"description": vhost.description, "tags": list(vhost.tags)}
    if vhost.default_queue_type is not None:
        said["default_queue_type"] = vhost.default_queue_type
    if vhost.is_protected:
        said["protected_from_deletion"] = True
    return said


def _vhost(vhost: Vhost) -> View:
    said = metadata(vhost)
    return {"name": vhost.name, **said, "metadata": said, "limits": dict(vhost.limits)}


def _permissions(broker: Broker) -> Iterator[View]:
    for user, vhost, permission in list(broker.permissions):
        yield {
            "user": user,
            "vhost": vhost,
            "configure": permission.configure,
            "write": permission.write,
            "read": permission.read,
        }


def _topic_permissions(broker: Broker) -> Iterator[View]:
    for user, vhost, exchange, permission in list(broker.permissions.topics()):
        yield {
            "user": user,
            "vhost": vhost,
            "exchange": exchange,
            "write": permission.write,
            "read": permission.read,
        }


def _parameters(broker: Broker, vhosts: list[Vhost]) -> Iterator[View]:
    named = {vhost.name for vhost in vhosts}
    for parameter in list(broker.parameters):
        if parameter.vhost in named:
            yield {
                "value": parameter.value,
                "vhost": parameter.vhost,
                "component": parameter.component,
                "name": parameter.name,
            }
    for vhost in vhosts:
        for policy in vhost.policies.all(OPERATOR_POLICY):
            yield {"value": policy.value(), "vhost": vhost.name, "component": OPERATOR_POLICY, "name": policy.name}


def _global_parameters(broker: Broker) -> Iterator[View]:
    for name, value in sorted(broker.parameters.globals.items()):
        yield {"name": name, "value": value}


def _policies(vhosts: list[Vhost]) -> Iterator[View]:
    for vhost in vhosts:
        for policy in vhost.policies.all(POLICY):
            yield dict(policy.view())


def _is_exported(queue: Queue) -> bool:
    return queue.owner is None and not queue.name.startswith(RESERVED)


def _queues(vhosts: list[Vhost]) -> Iterator[View]:
    for vhost in vhosts:
        for queue in list(vhost.queues.values()):
            if _is_exported(queue):
                yield {
                    "name": views.text(queue.name),
                    "vhost": vhost.name,
                    "type": queue.settings.queue_type,
                    "durable": queue.durable,
                    "auto_delete": queue.auto_delete,
                    "arguments": views.table(queue.arguments),
                }


def _exchanges(vhosts: list[Vhost]) -> Iterator[View]:
    for vhost in vhosts:
        for exchange in list(vhost.exchanges.values()):
            if exchange.name and not exchange.name.startswith(RESERVED):
                yield _exchange(exchange)


def _exchange(exchange: Exchange) -> View:
    return {
        "name": views.text(exchange.name),
        "vhost": exchange.vhost,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": views.table(exchange.arguments),
    }


def _bindings(vhosts: list[Vhost]) -> Iterator[View]:
    for vhost in vhosts:
        for exchange in list(vhost.exchanges.values()):
            for binding in list(exchange.bindings):
                if not _leads_to_unexported(vhost, binding):
                    shown = views.binding(vhost, binding)
                    del shown["properties_key"]
                    yield shown


def _leads_to_unexported(vhost: Vhost, binding: Binding) -> bool:
    if binding.destination_type != "queue":
        return False
    queue = vhost.queues.get(binding.destination.name)
    return queue is None or not _is_exported(queue)
