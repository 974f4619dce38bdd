"""Pages for people, and the script that the broker serves."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rabbitlike.management import admin_script
from tests.support.api import Api

SCRIPT = Path(admin_script.__file__).read_bytes()


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/api", "/api/index.html"),
        ("/stats", "/api/index.html"),
        ("/doc/stats.html", "/api/index.html"),
        ("/cli", "/cli/index.html"),
    ],
)
async def test_redirects(api: Api, path: str, place: str) -> None:
    """parity: for ever, and without a login."""
    answer = await api.stranger("192.0.2.1").get(path)
    assert (answer.status_code, answer.headers["location"]) == (301, place)


class Links(HTMLParser):
    """What a page links to, and what it shows as code."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("href", "src")]


@pytest.mark.parametrize("path", ["/api/index.html", "/cli/index.html"])
async def test_pages(api: Api, path: str) -> None:
    answer = await api.stranger("192.0.2.1").get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    page = Links(answer.text)
    assert "script" not in page.tags
    assert page.links
    for link in page.links:
        assert (await api.get(link)).status_code == 200, link


async def test_the_page_of_the_api_tells_every_operation(api: Api) -> None:
    page = (await api.get("/api/index.html")).text
    described = (await api.get("/api/openapi.json")).json()["paths"]
    operations = [(method.upper(), path) for path, methods in described.items() for method in methods]
    assert len(operations) > 200
    for method, path in operations:
        assert f"<tr><td>{method}</td><td><code>{path}</code></td>" in page
    assert "parity" not in page


async def test_the_script_is_served_as_a_file(api: Api) -> None:
    answer = await api.stranger("192.0.2.1").get("/cli/rabbitmqadmin")
    assert (answer.status_code, answer.content) == (200, SCRIPT)
    assert answer.content.startswith(b"#!/usr/bin/env python3\n")
    assert answer.headers["content-disposition"] == 'attachment; filename="rabbitmqadmin"'


def test_the_script_needs_no_package(tmp_path: Path) -> None:
    """Whoever downloads it has Python, and that is all."""
    script = tmp_path / "rabbitmqadmin"
    script.write_bytes(SCRIPT)
    isolated = [sys.executable, "-I", "-S", str(script)]
    done = subprocess.run([*isolated, "--help"], capture_output=True, text=True, check=True)
    assert "declare queue name=…" in done.stdout
    for words, said in (
        ([], "*** do what? One of: list, show, declare"),
        (["declare"], "*** declare what? One of: exchange, queue"),
        (["declare", "queue"], "*** mandatory argument 'name' of queue is missing"),
        (["declare", "queue", "name=q", "color=red"], "*** Unknown argument 'color=red' of queue"),
        (["declare", "queue", "name=q", "arguments=x"], "*** Could not parse arguments=x as JSON"),
        (["export"], "*** export takes the name of a file"),
        (["-N", "other", "list", "queues"], "has no section 'other'"),
    ):
        refused = subprocess.run([*isolated, "-c", str(tmp_path / "none"), *words], capture_output=True, text=True)
        assert refused.returncode == 1
        assert said in refused.stderr
