"""SIGHUP: reads the options again and applies those that can change while the broker runs.

The log file is reopened and certificates are reloaded even if no option has changed. Invalid options are logged and the
current ones stay in force: a reload never stops the broker.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from rabbitlike.config import OPTIONS, TLS_OPTIONS, ConfigError, Settings, reloaded
from rabbitlike.log import configure

if TYPE_CHECKING:
    from rabbitlike.server.certificates import Certificates

log = logging.getLogger("rabbitlike")


def reload(current: Settings, read: Callable[[], Settings], certificates: "Certificates | None") -> Settings:
    """Apply the options of the log and of TLS; return all options that are in force from now on."""
    try:
        wanted, fixed = reloaded(current, read())
    except ConfigError as error:
        log.error("reload: keeping the current options: %s", error)
        wanted, fixed = current, []
    try:
        configure_log(wanted)
    except ConfigError as error:
        log.error("reload: keeping the current log: %s", error)
        wanted = _keep(current, wanted, ("log_level", "log_format", "log_file"))
    if certificates is not None and not certificates.load(wanted):
        wanted = _keep(current, wanted, TLS_OPTIONS)
    for name in fixed:
        log.warning("reload: %s has changed; restart the broker to apply it", name)
    changed = [name for name in OPTIONS if getattr(current, name) != getattr(wanted, name)]
    log.info("reloaded: %s", f"new {', '.join(changed)}" if changed else "no option has changed")
    return wanted


def _keep(current: Settings, wanted: Settings, names: tuple[str, ...]) -> Settings:
    return replace(wanted, **{name: getattr(current, name) for name in names})


def configure_log(settings: Settings) -> None:
    """Configure the log; raise ConfigError, and change nothing, if the file cannot be opened."""
    try:
        configure(settings.log_level, settings.log_format, settings.log_file)
    except OSError as error:
        raise ConfigError(f"cannot write to log_file {settings.log_file}: {error.strerror}") from None
