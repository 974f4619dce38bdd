#!/usr/bin/env python3
"""rabbitmqadmin for rabbitlike: declares, lists and deletes objects over the broker's HTTP API.

One file that needs only Python 3.9 or newer. The broker serves it at /cli/rabbitmqadmin. Commands, options and output
are those of RabbitMQ 3.x's script of the same name, so existing scripts keep working.
"""

from __future__ import annotations

import argparse
import base64
import configparser
import http.client
import json
import os
import ssl
import sys
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode


class Resource(NamedTuple):
    """A kind of object that can be declared and deleted."""

    path: str
    #: Required options, and optional ones with their defaults. Options that the path does not name form the body.
    needed: tuple[str, ...]
    optional: dict[str, object] = {}  # noqa: RUF012 - never changed
    #: Options that identify the object to delete.
    identity: tuple[str, ...] = ("name",)
    method: str = "PUT"


class Fault(Exception):
    """A command failed; holds the reason."""


FLAGS: dict[str, object] = {"durable": "true", "auto_delete": "false", "arguments": {}}
POLICY: dict[str, object] = {"priority": 0, "apply-to": None}
ENDS = ("source", "destination_type", "destination", "properties_key")
RESOURCES = {
    "exchange": Resource("/exchanges/{vhost}/{name}", ("name", "type"), {**FLAGS, "internal": "false"}),
    "queue": Resource("/queues/{vhost}/{name}", ("name",), {**FLAGS, "node": None, "queue_type": None}),
    "binding": Resource(
        "/bindings/{vhost}/e/{source}/{destination_type}/{destination}",
        ("source", "destination"),
        {"destination_type": "queue", "routing_key": "", "arguments": {}},
        ENDS,
        "POST",
    ),
    "vhost": Resource("/vhosts/{name}", ("name",), {"tracing": None, "description": None, "tags": None}),
    "user": Resource(
        "/users/{name}",
        ("name", "tags"),
        {"password": None, "password_hash": None, "hashing_algorithm": None},
    ),
    "permission": Resource(
        "/permissions/{vhost}/{user}", ("vhost", "user", "configure", "write", "read"), {}, ("vhost", "user")
    ),
    "parameter": Resource(
        "/parameters/{component}/{vhost}/{name}", ("component", "name", "value"), {}, ("component", "name")
    ),
    "policy": Resource("/policies/{vhost}/{name}", ("name", "pattern", "definition"), POLICY),
    "operator_policy": Resource("/operator-policies/{vhost}/{name}", ("name", "pattern", "definition"), POLICY),
    "vhost_limit": Resource("/vhost-limits/{vhost}/{name}", ("vhost", "name", "value"), {}, ("vhost", "name")),
    "user_limit": Resource("/user-limits/{user}/{name}", ("user", "name", "value"), {}, ("user", "name")),
}
#: Options whose values are JSON.
STRUCTURED = ("arguments", "definition", "value", "properties", "priority")

#: The lists, and their default columns in a table.
LISTS = {
    "bindings": "source destination routing_key",
    "channels": "name user",
    "connections": "name user channels",
    "consumers": "queue.name channel_details.name consumer_tag",
    "exchanges": "name type",
    "nodes": "name type mem_used",
    "operator_policies": "vhost name pattern apply-to definition priority",
    "parameters": "component vhost name value",
    "permissions": "vhost user configure write read",
    "policies": "vhost name pattern apply-to definition priority",
    "queues": "name messages",
    "user_limits": "user value",
    "users": "name tags",
    "vhost_limits": "vhost value",
    "vhosts": "name tracing",
}
#: Lists that -V restricts to one vhost.
OF_VHOST = ("bindings", "consumers", "exchanges", "operator_policies", "policies", "queues")
SHOWN = "rabbitmq_version cluster_name queue_totals.messages object_totals.queues object_totals.connections"
GOT = "routing_key exchange message_count payload payload_bytes payload_encoding redelivered"
FORMATS = ("table", "tsv", "long", "kvp", "bash", "pretty_json", "raw_json")
JSON_FORMATS = ("pretty_json", "raw_json")
#: Formats that show all fields unless columns are given.
WHOLE_FORMATS = ("long", "kvp")


# Requests


class Api:
    """The broker's HTTP API."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        login = f"{options.username}:{options.password}".encode()
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(login).decode("ascii"),
            "Content-Type": "application/json",
        }

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The broker's answer; None if its body is empty."""
        connection = self._connect()
        try:
            content = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
            connection.request(method, "/api" + path, content, self._headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as problem:
            raise Fault(f"Could not connect: {problem}") from None
        finally:
            connection.close()
        if answer.status < 300:
            return json.loads(text) if text else None
        raise Fault(_refusal(answer.status, path, text))

    def _connect(self) -> http.client.HTTPConnection:
        options = self._options
        if not options.ssl:
            return http.client.HTTPConnection(options.host, options.port, timeout=options.request_timeout)
        context = ssl.create_default_context(cafile=options.ssl_ca_cert_file)
        if options.ssl_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if options.ssl_cert_file:
            context.load_cert_chain(options.ssl_cert_file, options.ssl_key_file)
        return http.client.HTTPSConnection(options.host, options.port, timeout=options.request_timeout, context=context)


def _refusal(status: int, path: str, text: str) -> str:
    try:
        reason = json.loads(text)["reason"]
    except (KeyError, TypeError, ValueError):
        reason = text
    if status == 401:
        return f"Access refused: {path}: {reason}"
    if status == 404:
        return f"Not found: {path}: {reason}"
    return str(reason) if status == 400 else f"{status}: {reason}"


def _fill(path: str, given: dict[str, Any]) -> str:
    return path.format_map({name: quote(str(value), safe="") for name, value in given.items()})


# Parsing arguments


def _pairs(words: list[str], needed: tuple[str, ...], optional: dict[str, object], what: str) -> dict[str, Any]:
    """Parse `name=value` words. An optional option that is absent and has no default becomes None."""
    given: dict[str, Any] = dict(optional)
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in (*needed, *optional):
            known = ", ".join((*needed, *optional))
            raise Fault(f"Unknown argument {word!r} of {what}; it takes name=value of: {known}")
        given[name] = _parsed(name, value) if name in STRUCTURED else value
    missing = [name for name in needed if name not in given]
    if missing:
        raise Fault(f"mandatory argument {missing[0]!r} of {what} is missing")
    return given


def _parsed(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as problem:
        raise Fault(f"Could not parse {name}={value} as JSON: {problem}") from None


def _one_of(known: Any, words: list[str], verb: str) -> tuple[str, list[str]]:
    if not words or words[0] not in known:
        raise Fault(f"{verb} what? One of: {', '.join(known)}")
    return words[0], words[1:]


# Commands


class Admin:
    """One method per command; each prints its answer."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._api = Api(options)

    def list_objects(self, words: list[str]) -> None:
        what, columns = _one_of(LISTS, words, "list")
        options = self._options
        path = "/" + what.replace("_", "-")
        if options.vhost is not None and what in OF_VHOST:
            path += "/" + quote(options.vhost, safe="")
        asked = {"columns": ",".join(columns), "sort": options.sort, "sort_reverse": options.sort_reverse and "true"}
        query = urlencode({name: value for name, value in asked.items() if value})
        self._show(self._api.ask("GET", f"{path}?{query}" if query else path), columns, LISTS[what])

    def show(self, words: list[str]) -> None:
        _, columns = _one_of(("overview",), words, "show")
        query = f"?columns={','.join(columns)}" if columns else ""
        self._show([self._api.ask("GET", "/overview" + query)], columns, SHOWN)

    def declare(self, words: list[str]) -> None:
        what, rest = _one_of(RESOURCES, words, "declare")
        resource = RESOURCES[what]
        given = self._given(_pairs(rest, resource.needed, resource.optional, what))
        if given.get("queue_type"):
            given["arguments"] = {"x-queue-type": given.pop("queue_type"), **given["arguments"]}
        body = {
            name: value for name, value in given.items() if value is not None and f"{{{name}}}" not in resource.path
        }
        self._api.ask(resource.method, _fill(resource.path, given), body)
        self._say(f"{what} declared")

    def delete(self, words: list[str]) -> None:
        what, rest = _one_of(RESOURCES, words, "delete")
        resource = RESOURCES[what]
        given = self._given(_pairs(rest, resource.identity, {}, what))
        path = resource.path + ("/{properties_key}" if what == "binding" else "")
        self._api.ask("DELETE", _fill(path, given))
        self._say(f"{what} deleted")

    def close(self, words: list[str]) -> None:
        _, rest = _one_of(("connection",), words, "close")
        self._api.ask("DELETE", _fill("/connections/{name}", _pairs(rest, ("name",), {}, "connection")))
        self._say("connection closed")

    def purge(self, words: list[str]) -> None:
        _, rest = _one_of(("queue",), words, "purge")
        given = self._given(_pairs(rest, ("name",), {}, "queue"))
        self._api.ask("DELETE", _fill("/queues/{vhost}/{name}/contents", given))
        self._say("queue purged")

    def publish(self, words: list[str]) -> None:
        optional: dict[str, object] = {
            "payload": None,
            "exchange": "amq.default",
            "payload_encoding": "string",
            "properties": {},
        }
        given = self._given(_pairs(words, ("routing_key",), optional, "publish"))
        if given["payload"] is None:
            given["payload"] = sys.stdin.read()
        answer = self._api.ask("POST", _fill("/exchanges/{vhost}/{exchange}/publish", given), given)
        self._say("Message published" if answer["routed"] else "Message published but NOT routed")

    def get(self, words: list[str]) -> None:
        optional: dict[str, object] = {
            "count": 1,
            "ackmode": "ack_requeue_true",
            "payload_file": None,
            "encoding": "auto",
        }
        given = self._given(_pairs(words, ("queue",), optional, "get"))
        file = given.pop("payload_file")
        got = self._api.ask("POST", _fill("/queues/{vhost}/{queue}/get", given), given)
        if file is not None and got:
            payload = got[0]["payload"].encode()
            with open(file, "wb") as out:
                out.write(base64.b64decode(payload) if got[0]["payload_encoding"] == "base64" else payload)
        self._show(got, [], GOT)

    def export(self, words: list[str]) -> None:
        file = _file_in(words, "export")
        document = self._api.ask("GET", self._definitions())
        with open(file, "w") as out:
            json.dump(document, out, indent=2)
        self._say(f'Exported definitions for {self._options.host} to "{file}"')

    def upload(self, words: list[str]) -> None:
        file = _file_in(words, "import")
        with open(file, "rb") as document:
            self._api.ask("POST", self._definitions(), document.read())
        self._say(f'Uploaded definitions from "{file}" to {self._options.host}')

    def _definitions(self) -> str:
        vhost = self._options.vhost
        return "/definitions" if vhost is None else f"/definitions/{quote(vhost, safe='')}"

    def _given(self, given: dict[str, Any]) -> dict[str, Any]:
        """Add the vhost, and the kind of a binding's destination in the form that paths use."""
        vhost = self._options.vhost
        if "destination_type" in given:
            given["destination_type"] = given["destination_type"][:1]
        return {"vhost": "/" if vhost is None else vhost, **given}

    def _say(self, text: str) -> None:
        if not self._options.quiet:
            sys.stdout.write(text + "\n")

    def _show(self, found: Any, columns: list[str], default: str) -> None:
        form = self._options.format
        if form in JSON_FORMATS:
            sys.stdout.write(json.dumps(found, indent=2 if form == "pretty_json" else None) + "\n")
            return
        if not found:
            self._say("No items")
            return
        if not columns and form in WHOLE_FORMATS:
            found = [_flat(each, self._options.depth) for each in found]
            columns = list(dict.fromkeys(name for each in found for name in each))
        names = columns or default.split()
        PRINTERS[form](names, [[_text(_at(each, name)) for name in names] for each in found])


def _file_in(words: list[str], verb: str) -> str:
    if len(words) != 1:
        raise Fault(f"{verb} takes the name of a file")
    return words[0]


# Printing


def _flat(item: dict[str, Any], depth: int, before: str = "") -> dict[str, Any]:
    """Nested objects as `name.field`, down to `depth`."""
    flat: dict[str, Any] = {}
    for name, value in item.items():
        if isinstance(value, dict) and value and depth > 1:
            flat.update(_flat(value, depth - 1, f"{before}{name}."))
        else:
            flat[before + name] = value
    return flat


def _at(item: Any, name: str) -> Any:
    """A field, or `name.field` of a nested object; None if absent."""
    if not isinstance(item, dict) or name in item:
        return item.get(name) if isinstance(item, dict) else None
    first, _, rest = name.partition(".")
    return _at(item.get(first), rest) if rest else None


def _text(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _print_table(names: list[str], rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(names, *rows)]
    line = "+-" + "-+-".join("-" * width for width in widths) + "-+\n"
    sys.stdout.write(line + _cells(names, widths) + line)
    sys.stdout.writelines(_cells(row, widths) for row in rows)
    sys.stdout.write(line)


def _cells(row: list[str], widths: list[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |\n"


def _print_tsv(names: list[str], rows: list[list[str]]) -> None:
    sys.stdout.writelines("\t".join(row) + "\n" for row in [names, *rows])


def _print_long(names: list[str], rows: list[list[str]]) -> None:
    width = max(map(len, names))
    line = "-" * 80 + "\n"
    for row in rows:
        sys.stdout.write(line + "\n")
        sys.stdout.writelines(f"{name:>{width}}: {value}\n" for name, value in zip(names, row))
        sys.stdout.write("\n")
    sys.stdout.write(line)


def _print_pairs(names: list[str], rows: list[list[str]]) -> None:
    for row in rows:
        sys.stdout.write(" ".join(f'{name}="{value}"' for name, value in zip(names, row)) + "\n")


def _print_words(names: list[str], rows: list[list[str]]) -> None:
    """The first column, separated by spaces, for shell loops."""
    sys.stdout.write(" ".join(row[0] for row in rows) + "\n")


PRINTERS = {
    "table": _print_table,
    "tsv": _print_tsv,
    "long": _print_long,
    "kvp": _print_pairs,
    "bash": _print_words,
}

# Start

COMMANDS = {
    "list": Admin.list_objects,
    "show": Admin.show,
    "declare": Admin.declare,
    "delete": Admin.delete,
    "close": Admin.close,
    "purge": Admin.purge,
    "publish": Admin.publish,
    "get": Admin.get,
    "export": Admin.export,
    "import": Admin.upload,
}


def _help() -> str:
    lines = ["commands:"]
    for name, resource in RESOURCES.items():
        optional = "".join(f" [{each}=…]" for each in resource.optional)
        lines.append(f"  declare {name} " + " ".join(f"{each}=…" for each in resource.needed) + optional)
    for name, resource in RESOURCES.items():
        lines.append(f"  delete {name} " + " ".join(f"{each}=…" for each in resource.identity))
    lines.append(f"  list {' | '.join(LISTS)} [column…]")
    lines += [
        "  show overview [column…]",
        "  close connection name=…",
        "  purge queue name=…",
        "  publish routing_key=… [payload=…] [exchange=…] [payload_encoding=string|base64] [properties={…}]",
        "  get queue=… [count=…] [ackmode=…] [encoding=auto|base64] [payload_file=…]",
        "  export FILE",
        "  import FILE",
        "arguments, definition, properties and value are JSON.",
    ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "rabbitmqadmin",
        epilog=_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        conflict_handler="resolve",
    )
    add = parser.add_argument
    add("words", nargs="*", metavar="command")
    add("-c", "--config", default="~/.rabbitmqadmin.conf", help="a file with options, by default %(default)s")
    add("-N", "--node", default="default", help="the section of that file")
    add("-H", "--host", help="localhost unless given")
    add("-P", "--port", type=int, help="15672 unless given; 15671 with --ssl")
    add("-V", "--vhost", help="/ unless given; lists show all vhosts then")
    add("-u", "--username", help="guest unless given")
    add("-p", "--password", help="guest unless given")
    add("-q", "--quiet", action="store_true", help="print results alone")
    add("-s", "--ssl", action="store_true", help="connect with TLS")
    add("-k", "--ssl-insecure", action="store_true", help="do not check the broker's certificate")
    add("--ssl-ca-cert-file", help="PEM file of whom to trust")
    add("--ssl-cert-file", help="PEM file of a certificate to show")
    add("--ssl-key-file", help="PEM file of its key")
    add("-t", "--request-timeout", type=float, default=120, help="seconds to wait for an answer (%(default)s)")
    add("-f", "--format", choices=FORMATS, default="table", help="of lists")
    add("-S", "--sort", help="the field to sort a list by")
    add("-R", "--sort-reverse", action="store_true", help="the other way round")
    add("-d", "--depth", type=int, default=1, help="how deep to show fields of fields (%(default)s)")
    return parser


def _complete(options: argparse.Namespace) -> None:
    """Fill in missing options from the configuration file, else with defaults."""
    file = configparser.ConfigParser(interpolation=None)
    file.read(os.path.expanduser(options.config))
    kept = dict(file[options.node]) if file.has_section(options.node) else {}
    if options.node != "default" and not kept:
        raise Fault(f"{options.config} has no section {options.node!r}")
    options.ssl = options.ssl or kept.get("ssl", "").lower() == "true"
    options.host = options.host or kept.get("hostname", "localhost")
    options.port = options.port or int(kept.get("port", 15671 if options.ssl else 15672))
    options.username = kept.get("username", "guest") if options.username is None else options.username
    options.password = kept.get("password", "guest") if options.password is None else options.password
    options.vhost = kept.get("vhost") if options.vhost is None else options.vhost


def main() -> int:
    options = _parser().parse_intermixed_args()
    try:
        _complete(options)
        command, rest = _one_of(COMMANDS, options.words, "do")
        COMMANDS[command](Admin(options), rest)
    except (Fault, OSError) as problem:
        sys.stderr.write(f"*** {problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
