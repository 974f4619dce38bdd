"""The documentation is true: examples run, links lead somewhere, options and numbered behaviours are all accounted for.

A fenced block that opens with ```python run is a program: it is run against a broker, and a ```text block right behind
it is what it must print. ```python pytest is a test file; ```console run is commands, each behind a $, with what they
print; ```toml is a config file. localhost:5672 and localhost:15672 stand for the broker under test.
"""

import ast
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from rabbitlike.commands.call import NAMES
from rabbitlike.config import DEFAULTS, OPTIONS, OTHER_VARIABLES, load
from tests.support import settings_docs
from tests.support.broker_process import ROOT, BrokerProcess, environment, running

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
README, DOCS = ROOT / "README.md", ROOT / "docs"
ADDRESS, HTTP_ADDRESS = "localhost:5672", "localhost:15672"
TIMEOUT_S = 60
BEHAVIOURS = range(1, 146)

FENCE = re.compile(r"^```(?P<kind>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


class Block(NamedTuple):
    """One fenced block; `output` is the text block that follows it at once, if there is one."""

    page: Path
    line: int
    kind: str
    text: str
    output: str | None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(*kinds: str) -> list[Block]:
    return [block for page in PAGES for block in _blocks(page) if block.kind in kinds]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    found = list(FENCE.finditer(text))
    for at, match in enumerate(found):
        following = found[at + 1] if at + 1 < len(found) else None
        output = None
        if following and following["kind"] == "text" and not text[match.end() : following.start()].strip():
            output = following["text"]
        line = text.count("\n", 0, match.start()) + 1
        yield Block(page, line, match["kind"].strip(), match["text"], output)


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


# Examples


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with running("--webhook-allow", "127.0.0.1") as process:
        yield process


@pytest.fixture
def empty_broker() -> Iterator[BrokerProcess]:
    with running() as process:
        yield process


@pytest.mark.parametrize("block", blocks("python run"), ids=str)
def test_example_runs(block: Block, broker: BrokerProcess, tmp_path: Path) -> None:
    program = tmp_path / "example.py"
    text = block.text.replace(ADDRESS, f"localhost:{broker.port}")
    program.write_text(text.replace(HTTP_ADDRESS, f"localhost:{broker.management_port}"))
    ended = run(sys.executable, str(program), folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    if block.output is not None:
        assert ended.stdout == block.output


@pytest.mark.parametrize("block", blocks("console run"), ids=str)
def test_example_of_commands_runs(block: Block, empty_broker: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "rabbitlike").write_text(f'#!/bin/sh\nexec {sys.executable} -m rabbitlike "$@"\n')
    (tmp_path / "rabbitlike").chmod(0o755)
    variables = environment(RABBITLIKE_URL=f"http://localhost:{empty_broker.management_port}")
    variables["PATH"] = f"{tmp_path}:{variables['PATH']}"
    said = ""
    for command in re.findall(r"^\$ (.*)$", block.text, re.MULTILINE):
        ended = subprocess.run(
            ["/bin/sh", "-c", command],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        said += f"$ {command}\n{ended.stdout}"
    assert said == block.text


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_first_example_says_what_to_install(page: str) -> None:
    before, _, _ = (ROOT / page).read_text().partition("```python run\nimport pika\n")
    assert "`pip install pika`" in before


def test_examples_of_commands_call_python3() -> None:
    """Debian has no `python`."""
    assert [str(block) for block in blocks("console run", "sh") if re.search(r"(?<![\w./-])python ", block.text)] == []


@pytest.mark.parametrize("block", blocks("python pytest"), ids=str)
def test_example_of_a_test_passes(block: Block, tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(block.text)
    words = ("-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "--rootdir", str(tmp_path), str(tmp_path))
    ended = run(sys.executable, "-m", "pytest", *words, folder=tmp_path)
    assert ended.returncode == 0, ended.stdout


def run(*words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, cwd=folder, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_config_file_is_accepted(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "rabbitlike.toml"
    file.write_text(block.text)
    load({"config": str(file)})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)) <= targets
    for line in re.findall(r"rabbitlike serve(?: [^\n`#]*)?", text):
        flags = {flag.replace("-", "_") for flag in re.findall(r"--(?:no-)?([a-z-]+)", line)}
        assert flags <= {*OPTIONS, "help"}, line
    variables = {name.lower() for name in re.findall(r"RABBITLIKE_([A-Z_]+)", text)}
    assert variables <= {*OPTIONS, *NAMES, *(name.lower() for name in OTHER_VARIABLES)}


# Links and names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{page.name} links to {target}"


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that headings become on a web page."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def test_every_page_is_reached_from_the_readme() -> None:
    linked = {(README.parent / target.partition("#")[0]).resolve() for target in LINK.findall(prose(README))}
    assert {page for page in DOCS.glob("*.md") if page not in linked} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    for name in re.findall(r"`([\w./-]+/[\w.-]*\.(?:py|pxd|md|toml|sql))`", prose(page)):
        assert any((folder / name).exists() for folder in (ROOT, ROOT / "rabbitlike", DOCS)), f"{page.name}: {name}"


def test_named_methods_exist() -> None:
    """What the page about the code calls `Class.method` is there under that name."""
    known = known_names()
    named = re.findall(r"`([A-Z]\w+)\.(\w+)(?:\([^)`]*\))?`", prose(DOCS / "architecture.md"))
    assert named
    assert [f"{owner}.{name}" for owner, name in named if name not in known.get(owner, ())] == []


@cache
def known_names() -> dict[str, set[str]]:
    """Every class of the project with its methods and attributes, inherited ones included as far as names tell."""
    classes: dict[str, set[str]] = {}
    parents: dict[str, list[str]] = {}
    for room in ("rabbitlike", "protocol", "storage"):
        for file in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ClassDef):
                    classes.setdefault(node.name, set()).update(_members(node))  # two may have one name
                    parents[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]
    for name, bases in parents.items():
        for base in bases:
            classes[name] |= classes.get(base, set())
    return classes


def _members(owner: ast.ClassDef) -> Iterator[str]:
    for node in ast.walk(owner):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


# Options


def test_every_option_is_documented_with_its_default() -> None:
    """Rows of docs/configuration.md are `| name | default | what it does |`."""
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", (DOCS / "configuration.md").read_text(), re.MULTILINE))
    assert rows == {name: shown_default(name) for name in OPTIONS}


def shown_default(name: str) -> str:
    default = getattr(DEFAULTS, name)
    if name == "cluster_name":
        default = default.replace(socket.gethostname(), "<host name>")
    if isinstance(default, tuple):
        default = ",".join(default) or None
    if isinstance(default, bool):
        default = "yes" if default else "no"
    return "none" if default is None else f"`{default}`"


# Queue settings


@pytest.mark.parametrize("page", settings_docs.PAGES, ids=lambda page: page.name)
def test_tables_of_settings_are_up_to_date(page: Path) -> None:
    """Otherwise run `make docs`."""
    assert page.read_text() == settings_docs.written(page.read_text())


def test_every_table_of_settings_is_on_a_page() -> None:
    found = [name for page in settings_docs.PAGES for name in re.findall(r"<!-- settings: (\w+) -->", page.read_text())]
    assert sorted(found) == sorted(settings_docs.TABLES)


# The numbered behaviours


def test_every_behaviour_is_described() -> None:
    described = re.findall(r"^(\d+)\. ", (DOCS / "behaviours.md").read_text(), re.MULTILINE)
    assert [int(number) for number in described] == list(BEHAVIOURS)


def test_every_behaviour_is_proved_or_excused() -> None:
    """A test's docstring starts with the numbers it proves; what none proves stands in docs/differences.md, and only
    that."""
    proved = proved_behaviours()
    excused = {int(number) for number in re.findall(r"^\| #(\d+) \|", untested_section(), re.MULTILINE)}
    assert proved | excused == set(BEHAVIOURS), "neither a test nor an entry in docs/differences.md"
    assert proved & excused == set(), "tested by now: take it out of docs/differences.md"


def untested_section() -> str:
    _, _, rest = (DOCS / "differences.md").read_text().partition("## Behaviours without a test\n")
    assert rest
    return rest.partition("\n## ")[0]


def proved_behaviours() -> set[int]:
    found: set[int] = set()
    for file in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                numbers = re.match(r"(?:#\d+[ ,]*)+", ast.get_docstring(node) or "")
                found.update(int(number) for number in re.findall(r"\d+", numbers[0] if numbers else ""))
    return found
