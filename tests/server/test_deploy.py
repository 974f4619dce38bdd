"""The files in deploy/: what systemd and logrotate make of them."""

import getpass
import grp
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rabbitlike.config import OPTIONS, load
from tests.server.test_reload import wait_until
from tests.support.broker_process import ROOT, running

DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "rabbitlike.service").read_text()


def tool(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip(f"needs {name}")
    return found


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Of a broker that is installed: the unit's path leads to none here."""
    program = "/opt/rabbitlike/bin/rabbitlike"
    assert program in UNIT
    unit = tmp_path / "rabbitlike.service"
    unit.write_text(UNIT.replace(program, sys.executable))
    ended = subprocess.run(
        [tool("systemd-analyze"), "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    said = [line for line in (ended.stdout + ended.stderr).splitlines() if "rabbitlike" in line]
    assert (ended.returncode, said) == (0, []), ended.stderr


def test_the_unit_reloads_and_does_not_repeat_mistakes() -> None:
    assert "ExecReload=/bin/kill -HUP $MAINPID\n" in UNIT
    assert "RestartPreventExitStatus=2\n" in UNIT


def test_the_options_can_be_loaded() -> None:
    path = re.search(r"--config (\S+)", UNIT)
    assert path is not None
    assert Path(path[1]).name == "rabbitlike.toml"
    settings = load({"config": str(DEPLOY / "rabbitlike.toml")})
    assert settings.data_dir == Path("/var/lib/rabbitlike")
    commented = re.findall(r"^# (\w+) = ", (DEPLOY / "rabbitlike.toml").read_text(), re.MULTILINE)
    assert set(commented) <= OPTIONS.keys()


def test_logrotate_moves_the_log_and_the_broker_begins_another(tmp_path: Path) -> None:
    logrotate = tool("logrotate")
    logs = tmp_path / "logs"
    logs.mkdir(mode=0o755)
    file = logs / "rabbitlike.log"
    me, group = getpass.getuser(), grp.getgrgid(os.getgid()).gr_name
    text = (DEPLOY / "rabbitlike.logrotate").read_text()
    assert str(load({"config": str(DEPLOY / "rabbitlike.toml")}).log_file) == "/var/log/rabbitlike/rabbitlike.log"
    with running("--log-file", str(file)) as broker:
        wait_until(lambda: "is ready" in file.read_text())
        for there, here in (
            ("/var/log/rabbitlike/", f"{logs}/"),
            ("rabbitlike rabbitlike", f"{me} {group}"),
            ("systemctl reload rabbitlike.service", f"kill -HUP {broker.process.pid}"),
        ):
            assert there in text
            text = text.replace(there, here)
        config = tmp_path / "logrotate.conf"
        config.write_text(text)
        config.chmod(0o644)
        words = [logrotate, "--force", "--state", str(tmp_path / "state"), str(config)]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
        wait_until(lambda: "reloaded: " in file.read_text())
        assert "is ready" in (logs / "rabbitlike.log.1").read_text()
        assert "is ready" not in file.read_text()
