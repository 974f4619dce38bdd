"""The addresses that webhooks may be sent to: public ones, and those in the option `webhook_allow`.

A policymaker chooses the URL, and the broker sends the request from inside the operator's network. Without this check,
a policy could reach services that trust the network, on this machine or near it.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address

#: IPv6 addresses that represent the IPv4 address in their last four octets.
NAT64: Final = IPv6Network("64:ff9b::/96")


class RefusedTargetError(Exception):
    """Webhooks must not be sent to this address."""


class AllowedTargets:
    """The option `webhook_allow`: host names, addresses, and networks such as `10.0.0.0/8`."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._hosts: set[str] = set()
        self._networks = []
        for entry in entries:
            try:
                self._networks.append(ip_network(entry, strict=False))
            except ValueError:
                self._hosts.add(_plain(entry))

    def choose(self, host: str, addresses: Iterable[str]) -> list[str]:
        """The allowed addresses among those of `host`. Raises RefusedTargetError if there is none."""
        found = list(addresses)
        if _plain(host) in self._hosts:
            return found
        chosen = [address for address in found if self._allows(address)]
        if not chosen:
            raise RefusedTargetError(
                f"{', '.join(found) or host} is not a public address; to send webhooks there, list it in webhook_allow"
            )
        return chosen

    def _allows(self, text: str) -> bool:
        address = ip_address(text.partition("%")[0])
        meant = _meant(address)
        if any(each in network for network in self._networks for each in (address, *meant)):
            return True
        return all(each.is_global and not each.is_multicast for each in meant)


def _plain(host: str) -> str:
    return host.lower().removesuffix(".")


def _meant(address: Address) -> tuple[Address, ...]:
    """The addresses that may receive packets to this one: the IPv4 address that it contains, if any."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in NAT64:
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    if address.sixtofour is not None:
        return (address, address.sixtofour)
    if address.teredo is not None:
        return (address, *address.teredo)
    return (address,)
