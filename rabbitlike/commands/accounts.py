"""Users, permissions and limits: `users`, `permissions`, and the parts of `declare` and `delete` for them.

parity: the API replaces a whole user, so a command first reads the fields that it does not change and sends them back.
"""

from typing import Annotated, Final

import typer

from rabbitlike.commands.api import View
from rabbitlike.commands.call import Call, ask_password, broker_command
from rabbitlike.commands.declaring import declare, delete, gone
from rabbitlike.commands.faults import Fault
from rabbitlike.commands.listing import list_command, named
from rabbitlike.commands.names import NewName, UserName
from rabbitlike.commands.values import names_in

users = typer.Typer(help="Add users, change passwords and tags.", no_args_is_help=True)
permissions = typer.Typer(help="Set what users may do in a vhost.", no_args_is_help=True)

NewPassword = Annotated[
    str | None,
    typer.Argument(
        metavar="[PASSWORD]", help="Or --password. The command asks for it if neither is given.", show_default=False
    ),
]
PasswordOption = Annotated[
    str | None,
    typer.Option("--password", help="The new password; yours is --login-password or -p.", metavar="TEXT"),
]
Tags = Annotated[
    str,
    typer.Option(
        "--tags", help="administrator, monitoring, policymaker, management; separated by commas.", metavar="TEXT"
    ),
]
Hash = Annotated[
    str | None, typer.Option("--password-hash", help="Hash from `rabbitlike hash-password`.", metavar="TEXT")
]


def add_user(
    call: Call,
    name: NewName,
    new_password: NewPassword = None,
    same_password: PasswordOption = None,
    tags: Tags = "",
    password_hash: Hash = None,
) -> None:
    """Add a user. To give it permissions, use `permissions set`."""
    body: View = {"tags": ",".join(names_in(tags))}
    if password_hash is not None:
        body["password_hash"] = password_hash
    else:
        body["password"] = _new_password(name, new_password, same_password)
    is_new = call.api.put("users", name, body=body)
    told = "added" if is_new else "was there: it has this password and these tags now"
    call.output.done(f"user '{name}' {told}", kind="user", name=name, outcome="created" if is_new else "updated")


def _new_password(name: str, argument: str | None, option: str | None) -> str:
    if argument and option:
        raise Fault(f"two new passwords for {name}: give one; the password you log in with is --login-password or -p")
    return argument or option or ask_password(f"New password of {name}", "give it with --password")


@broker_command(users, "passwd")
def change_password(
    call: Call, name: UserName, new_password: NewPassword = None, same_password: PasswordOption = None
) -> None:
    """Change the password of a user."""
    view = call.api.get("users", name)
    password = _new_password(name, new_password, same_password)
    call.api.put("users", name, body={"tags": _tags(view), "password": password})
    call.output.done(f"user '{name}' has a new password", kind="user", name=name, outcome="updated")


@broker_command(users, "tags")
def set_tags(
    call: Call,
    name: UserName,
    tags: Annotated[list[str] | None, typer.Argument(metavar="[TAG]…", help="Without any: removes all tags.")] = None,
) -> None:
    """Replace the tags of a user."""
    view = call.api.get("users", name)
    wanted = [tag for text in tags or () for tag in names_in(text)]
    body: View = {"tags": ",".join(wanted), "password_hash": view["password_hash"]}
    if "hashing_algorithm" in view:
        body["hashing_algorithm"] = view["hashing_algorithm"]
    call.api.put("users", name, body=body)
    told = f"has the tags {', '.join(wanted)}" if wanted else "has no tags"
    call.output.done(f"user '{name}' {told}", kind="user", name=name, tags=wanted, outcome="updated")


def _tags(view: View) -> str:
    """parity: a list since 3.9, before that a text separated by commas."""
    return view["tags"] if isinstance(view["tags"], str) else ",".join(view["tags"])


def delete_user(call: Call, name: UserName) -> None:
    """Delete a user and close its connections."""
    call.api.delete("users", name)
    gone(call, "user", name)


broker_command(users, "add")(add_user)
broker_command(declare, "user")(add_user)
broker_command(users, "delete")(delete_user)
broker_command(delete, "user")(delete_user)
list_command(named("users"), users, "list")


# Permissions

Pattern = Annotated[str, typer.Option(help="Regular expression that names must match.", metavar="REGEX")]
TopicExchange = Annotated[str, typer.Argument(metavar="EXCHANGE", show_default=False)]


def set_permissions(
    call: Call, name: UserName, configure: Pattern = ".*", write: Pattern = ".*", read: Pattern = ".*"
) -> None:
    """Set what a user may declare (configure), publish to (write) and consume from (read); default: everything."""
    body: View = {"configure": configure, "write": write, "read": read}
    call.api.put("permissions", call.vhost, name, body=body)
    call.output.done(
        f"user '{name}' may configure '{configure}', write '{write}' and read '{read}'{call.in_vhost}",
        kind="permissions",
        vhost=call.vhost,
        user=name,
        outcome="set",
        **body,
    )


def clear_permissions(call: Call, name: UserName) -> None:
    """Remove all permissions of a user in a vhost."""
    call.api.delete("permissions", call.vhost, name)
    call.output.done(
        f"user '{name}' may do nothing{call.in_vhost or ' in vhost /'}",
        kind="permissions",
        vhost=call.vhost,
        user=name,
        outcome="cleared",
    )


def set_topic_permissions(
    call: Call, name: UserName, exchange: TopicExchange, write: Pattern = ".*", read: Pattern = ".*"
) -> None:
    """Set which routing keys a user may publish with (write) and bind with (read) on a topic exchange."""
    body: View = {"exchange": exchange, "write": write, "read": read}
    call.api.put("topic-permissions", call.vhost, name, body=body)
    call.output.done(
        f"user '{name}' may publish to '{exchange}' with keys '{write}' and bind with '{read}'{call.in_vhost}",
        kind="topic permissions",
        vhost=call.vhost,
        user=name,
        outcome="set",
        **body,
    )


def clear_topic_permissions(
    call: Call,
    name: UserName,
    exchange: Annotated[str | None, typer.Argument(metavar="[EXCHANGE]", help="Default: all exchanges.")] = None,
) -> None:
    """Remove topic permissions of a user."""
    call.api.delete("topic-permissions", call.vhost, name, *([] if exchange is None else [exchange]))
    call.output.done(
        f"topic permissions of user '{name}' cleared{call.in_vhost}",
        kind="topic permissions",
        vhost=call.vhost,
        user=name,
        exchange=exchange,
        outcome="cleared",
    )


broker_command(permissions, "set")(set_permissions)
broker_command(declare, "permissions")(set_permissions)
broker_command(permissions, "clear")(clear_permissions)
broker_command(delete, "permissions")(clear_permissions)
broker_command(permissions, "set-topic")(set_topic_permissions)
broker_command(declare, "topic-permissions")(set_topic_permissions)
broker_command(permissions, "clear-topic")(clear_topic_permissions)
broker_command(delete, "topic-permissions")(clear_topic_permissions)
list_command(named("permissions"), permissions, "list")


# Limits

OfUser = Annotated[str | None, typer.Option("--of-user", help="Set the limit of this user.", metavar="USER")]
Limit = Annotated[
    str,
    typer.Argument(metavar="LIMIT", help="max-connections, max-queues; of a user: max-connections, max-channels."),
]
OF_VHOST: Final = ("max-connections", "max-queues")
OF_USER: Final = ("max-connections", "max-channels")


def _limit_path(call: Call, limit: str, user: str | None) -> tuple[str, str, str]:
    known = OF_VHOST if user is None else OF_USER
    if limit not in known:
        raise Fault(f"no limit '{limit}' of a {'vhost' if user is None else 'user'}: there are {' and '.join(known)}")
    return ("vhost-limits", call.vhost, limit) if user is None else ("user-limits", user, limit)


@broker_command(declare, "limit")
def set_limit(
    call: Call,
    limit: Limit,
    value: Annotated[int, typer.Argument(metavar="NUMBER", help="-1 means no limit.", show_default=False)],
    of_user: OfUser = None,
) -> None:
    """Limit the connections, queues or channels of a vhost, or of a user with --of-user."""
    kind, of, _ = path = _limit_path(call, limit, of_user)
    call.api.put(*path, body={"value": value})
    call.output.done(
        f"{kind[:-7]} '{of}' is limited: {limit} {value}",
        kind=kind[:-1],
        of=of,
        limit=limit,
        value=value,
        outcome="set",
    )


@broker_command(delete, "limit")
def clear_limit(call: Call, limit: Limit, of_user: OfUser = None) -> None:
    """Remove a limit."""
    kind, of, _ = path = _limit_path(call, limit, of_user)
    call.api.delete(*path)
    call.output.done(
        f"{kind[:-7]} '{of}' has no {limit} any more", kind=kind[:-1], of=of, limit=limit, outcome="cleared"
    )
