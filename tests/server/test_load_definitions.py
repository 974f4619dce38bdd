"""Definitions taken in at the start: before clients come, on disk afterwards, and in one line when they are wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rabbitlike.app import App
from rabbitlike.broker.policies.keys import POLICY
from rabbitlike.config import ConfigError, Settings
from tests.support.broker_process import ROOT, environment

FILES = ROOT / "tests" / "management" / "definitions"


def settings(folder: Path, definitions: Path | None) -> Settings:
    return Settings(
        host="127.0.0.1", port=0, management_port=None, data_dir=folder, load_definitions=definitions, durability="off"
    )


async def test_they_are_there_at_the_start_and_stay_without_the_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for definitions in (FILES / "rabbitmq-3.10.8.json", None):
        app = App(settings(data, definitions))
        await app.start()
        try:
            broker = app.broker
            assert set(broker.vhosts) == {"/", "shop", "café"}
            assert {user.name for user in broker.users} == {
                "alice",
                "bob",
                "cert-only",
                "guest",
                "sensor",
                "strong",
            }
            home, shop = broker.vhosts["/"], broker.vhosts["shop"]
            assert home.queues["work.plain"].policy is home.policies.get(POLICY, "cap")
            assert home.queues["work.plain"].settings.max_length == 10_000
            assert shop.queues["orders.quorum"].settings.delivery_limit == 7
            assert home.exchanges["telemetry"].alternate == "unrouted"
            assert shop.limits == {"max-connections": 64, "max-queues": 1000}
            kept = home.queues["work.unknown"].arguments
            assert kept["x-custom"] == {"empty": {}, "list": [1, 2.5, "drei", True]}
            assert ("passing" in home.queues) == (definitions is not None)
            bound = {(binding.source, binding.routing_key) for binding in home.bindings_to(home.queues["work.plain"])}
            assert bound == {("telemetry", "#.temperature"), ("telemetry", "*.humidity"), ("amq.topic", "from.amq")}
        finally:
            await app.stop()


async def test_no_default_user_where_definitions_say_what_there_is(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"vhosts": [{"name": "only"}]}), "utf-8-sig")
    app = App(Settings(host="127.0.0.1", port=0, management_port=None, memory=True, load_definitions=file))
    await app.start()
    try:
        assert (list(app.broker.vhosts), len(app.broker.users)) == (["only"], 0)
    finally:
        await app.stop()


async def test_what_is_not_supported_is_passed_over_unless_strict(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    stream = {"vhost": "/", "name": "s", "durable": True, "arguments": {"x-queue-type": "stream"}}
    file.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": [stream, {"vhost": "/", "name": "q"}]}))
    options = {"host": "127.0.0.1", "port": 0, "management_port": None, "memory": True, "load_definitions": file}
    app = App(Settings(**options))  # type: ignore[arg-type]
    await app.start()
    try:
        assert list(app.broker.vhosts["/"].queues) == ["q"]
    finally:
        await app.stop()
    strict = App(Settings(**options, load_definitions_strict=True))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="strict import refused, 1 not supported: queue 's' in vhost '/'"):
        await strict.start()
    assert not strict.broker.vhosts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "load_definitions: cannot read {}: No such file or directory"),
        ("{", "load_definitions: {} cannot be taken in: Expecting property name"),
        ("[]", "load_definitions: {} cannot be taken in: definitions must be an object, not []"),
        (
            '{"vhosts": [{"name": "/"}], "policies": [{"vhost": "/", "name": "p", "pattern": "", "definition": {}}]}',
            "load_definitions: {} cannot be taken in: policy 'p' in vhost '/': Validation failed no policy provided",
        ),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "definitions.json"
    if text is not None:
        file.write_text(text)
    words = ["serve", "--port", "0", "--management-port", "none", "--data-dir", str(tmp_path / "data")]
    ended = subprocess.run(
        [sys.executable, "-m", "rabbitlike", *words, "--load-definitions", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        check=False,
    )
    assert ended.returncode == 2
    lines = [line for line in ended.stderr.splitlines() if "[INFO]" not in line]
    assert len(lines) == 1, ended.stderr
    assert said.format(file) in lines[0]
