"""Options: one declaration, three ways to set them, and one line for each mistake."""

import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from rabbitlike import config
from rabbitlike.config import DEFAULTS, OPTIONS, OTHER_VARIABLES, BrokerSettings, ConfigError, Settings, load, reloaded
from tests.support.broker_process import ROOT, environment

FOLDERS = ("benchmarks", "deploy", "docs", "interop", "protocol", "rabbitlike", "spark", "storage", "tests")


@pytest.fixture(autouse=True)
def _no_options_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OPTIONS:
        monkeypatch.delenv(f"RABBITLIKE_{name.upper()}", raising=False)


def written(folder: Path, text: str) -> str:
    path = folder / "rabbitlike.toml"
    path.write_text(text)
    return str(path)


def test_defaults() -> None:
    settings = load()
    assert settings == DEFAULTS
    assert (settings.port, settings.management_port, settings.tls_port) == (5672, 15672, 5671)
    assert (settings.data_dir, settings.memory, settings.log_level) == (Path("data"), False, "info")
    broker = settings.broker
    assert (broker.product, broker.version) == ("RabbitMQ", "3.13.7")
    assert (broker.frame_max, broker.channel_max, broker.heartbeat) == (131072, 2047, 60)
    assert broker == BrokerSettings()


def test_the_nearest_source_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Command line before environment before file before default."""
    path = written(tmp_path, 'port = 1001\nheartbeat = 11\nhost = "file"\nlog_level = "error"\n')
    monkeypatch.setenv("RABBITLIKE_CONFIG", path)
    monkeypatch.setenv("RABBITLIKE_PORT", "1002")
    monkeypatch.setenv("RABBITLIKE_HOST", "environment")
    settings = load({"port": "1003"})
    assert (settings.port, settings.host, settings.heartbeat, settings.log_level) == (1003, "environment", 11, "error")
    assert settings.channel_max == DEFAULTS.channel_max
    assert load({"config": path, "host": "flag"}).host == "flag"


def test_every_option_can_be_set_every_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {name: example(name) for name in OPTIONS if name != "config"}
    given = load({name: [text] if is_several(name) else text for name, text in texts.items()})
    assert all(getattr(given, name) != getattr(DEFAULTS, name) for name in texts)
    # Quoted, all of them: TOML's own numbers and switches are tried below.
    path = written(tmp_path, "".join(f"{name} = '{text}'\n" for name, text in texts.items()))
    from_file = load({"config": path})
    for name, text in texts.items():
        monkeypatch.setenv(f"RABBITLIKE_{name.upper()}", text)
    from_environment = load()
    for name in texts:
        assert getattr(given, name) == getattr(from_environment, name) == getattr(from_file, name), name


def is_several(name: str) -> bool:
    return get_origin(OPTIONS[name].type) is tuple


def example(name: str) -> str:
    """Some value other than the default."""
    special = {
        "memory_high_watermark": "0.25",
        "durability": "normal",
        "listeners": "unix:///a,amqp://[::1]:1",
        "trust_client_x_death": "false",
        "memory": "true",
        "port": "none",
    }
    default = getattr(DEFAULTS, name)
    if get_origin(OPTIONS[name].type) is Literal:
        return next(choice for choice in get_args(OPTIONS[name].type) if choice != default)
    return special.get(name) or (str(default + 1) if isinstance(default, int) else "4711")


def test_toml_has_types_of_its_own(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'memory = true\nport = 1\nmemory_high_watermark = 0.25\nlisteners = ["unix:///a"]\nmax_message_size = "1MiB"\n'
        'loopback_users = []\ndefault_consumer_timeout_ms = "none"\n',
    )
    settings = load({"config": path})
    assert (settings.memory, settings.port, settings.memory_high_watermark) == (True, 1, 0.25)
    assert (settings.listeners, settings.loopback_users) == (("unix:///a",), ())
    assert settings.max_message_size == 1024 * 1024


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"port": "0", "host": "::1", "memory": True, "log_level": "debug"},
        {"data_dir": "/x/y", "management_port": "1", "unix_socket": "/s"},
        {"frame_max": "4096", "heartbeat": "65535", "connection_max": "0", "out_buffer_limit": "4096"},
        {"trust_client_x_death": False, "default_user": "u", "default_password": "p w", "default_vhost": "v"},
        {"tls_certfile": "c", "tls_cafile": "a", "tls_verify": "required"},
        {"port": "007"},
        {"port": "none", "unix_socket": "none", "tls_port": "none", "host": "none"},
        {"max_message_size": "1000", "default_consumer_timeout_ms": "5"},
    ],
)
def test_what_is_plain_is_read_as_the_judge_reads_it(given: dict[str, str | list[str] | bool]) -> None:
    plain = config._plain(given)
    assert plain is not None
    assert plain == config._judged(given)


@pytest.mark.parametrize(
    "given",
    [
        {"port": "None"},
        {"tls_certfile": "NONE"},
        {"port": "65536"},
        {"port": "-1"},
        {"port": " 5"},
        {"port": "٥"},
        {"host": ""},
        {"log_level": "loud"},
        {"config": "f"},
        {"memory": "yes"},
        {"frame_max": "4095"},
        {"memory_high_watermark": "1"},
        {"listeners": ["unix:///a"]},
        {"heartbeat": "9" * 20},
        {"nothing": "1"},
    ],
)
def test_what_is_not_plain_goes_to_the_judge(given: dict[str, str | list[str] | bool]) -> None:
    assert config._plain(given) is None


def test_plain_options_start_without_the_judge() -> None:
    """The start-up budget: pydantic and Typer cost more than all else together."""
    code = (
        "import sys, rabbitlike.app, rabbitlike.cli, rabbitlike.config as c; c.load({'port': '1', 'memory': True});"
        "sys.exit(' '.join({'pydantic', 'pydantic_settings', 'typer', 'click', 'rich'} & sys.modules.keys()) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], env=environment(RABBITLIKE_HOST="::1"), check=False)
    assert ended.returncode == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"port": "x"}, "port = 'x': should be a valid integer"),
        ({"port": "70000"}, "port = '70000': should be less than or equal to 65535"),
        ({"log_level": "loud"}, "log_level = 'loud': should be 'debug', 'info', 'warning' or 'error'"),
        ({"host": ""}, "host = '': string should have at least 1 character"),
        ({"listeners": ["http://x"]}, "each must be amqp://host:port, amqps://host:port or unix:///path"),
        ({"listeners": ["amqp://h:99999"]}, "port out of range"),
        ({"memory_high_watermark": "much"}, "expected bytes, as 1073741824 or 1GiB"),
        ({"tls_keyfile": "k"}, "tls_keyfile is set and tls_certfile is not"),
        ({"tls_cafile": "k"}, "tls_cafile is set and tls_certfile is not"),
        ({"listeners": ["amqps://h"]}, "needs a certificate: set tls_certfile"),
        ({"tls_certfile": "c", "tls_verify": "optional"}, "set tls_cafile"),
        ({"config": "/no/such/file"}, "cannot read the config file /no/such/file: No such file"),
        ({"prot": "1"}, "unknown option 'prot'; did you mean 'port'?"),
    ],
)
def test_a_mistake_is_told_in_one_line(given: dict[str, str | list[str] | bool], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 5672", "unknown option 'prot'; did you mean 'port'?"),
        ("data-dir = 'x'", "unknown option 'data-dir'; did you mean 'data_dir'?"),
        ("[tls]\nport = 1", "unknown option 'tls'"),
        ("zzzz = 1", "unknown option 'zzzz'"),
        ("config = 'other.toml'", "unknown option 'config'"),
        ("port = ]", "is not TOML: Invalid value (at line 1, column 8)"),
        ("port = 'x'", "port = 'x': should be a valid integer"),
    ],
)
def test_a_mistake_in_the_file_names_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({"config": written(tmp_path, text)})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(load({"default_password": "hunter2"}))


def test_settings_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        DEFAULTS.port = 1  # type: ignore[misc]


def test_every_option_is_explained() -> None:
    assert {each.name for each in fields(Settings)} == OPTIONS.keys()
    for each in OPTIONS.values():
        assert each.metadata["help"].endswith("."), each.name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RABBITLIKE_PRT", "unknown variable RABBITLIKE_PRT; did you mean 'RABBITLIKE_PORT'?"),
        ("RABBITLIKE_port", "unknown variable RABBITLIKE_port; did you mean 'RABBITLIKE_PORT'?"),
        ("RABBITLIKE_QQQQQ", "unknown variable RABBITLIKE_QQQQQ; unset it"),
    ],
)
def test_an_unknown_variable(name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "")
    for given in ({}, {"port": "5"}, {"config": written(tmp_path, "port = 5\n")}):
        with pytest.raises(ConfigError) as caught:
            load(given)
        assert str(caught.value) == said


def test_variables_of_commands_builds_and_tests_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name that stands anywhere in the tree, so that none of our own stops a broker."""
    folders = [ROOT / name for name in FOLDERS]
    files = [
        path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md", ".toml", ".service")
    ]
    found = {
        name
        for path in [*files, ROOT / "Makefile", ROOT / "Dockerfile", *(ROOT / ".ci").iterdir()]
        if path.name not in ("test_config.py", "test_cli.py") and path.is_file()
        for name in re.findall(r"\bRABBITLIKE_([A-Z_]+)\b", path.read_text())
    }
    assert found >= {"PURE", "TEST_SLICED", "URL", "PASSWORD", "DATA_DIR"}
    assert found <= {name.upper() for name in OPTIONS} | set(OTHER_VARIABLES)
    for name in OTHER_VARIABLES:
        monkeypatch.setenv(f"RABBITLIKE_{name}", "x")
    assert load() == DEFAULTS


def test_what_a_reload_puts_in_force() -> None:
    current = Settings(port=1, log_level="info", heartbeat=5)
    wanted = Settings(port=2, log_level="error", heartbeat=6, data_dir=Path("other"))
    assert reloaded(current, wanted) == (
        Settings(port=1, log_level="error", heartbeat=6),
        ["port", "data_dir"],
    )
    with_tls = Settings(tls_certfile=Path("c"), tls_verify="optional")
    assert reloaded(Settings(), with_tls) == (Settings(), ["tls_certfile", "tls_verify"])
    assert reloaded(with_tls, Settings()) == (with_tls, ["tls_certfile", "tls_verify"])
    other = Settings(tls_certfile=Path("d"), tls_verify="required")
    assert reloaded(with_tls, other) == (other, [])
