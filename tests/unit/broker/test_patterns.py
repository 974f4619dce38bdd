"""Expressions of users: what they match, and that none holds the broker up."""

import logging
import sys

import pytest

from rabbitlike.broker import patterns
from rabbitlike.broker.accounts.permissions import Permission, Permissions
from rabbitlike.broker.patterns import LONGEST, Pattern, PatternError, TooSlow
from rabbitlike.broker.policies.policies import POLICY, make_policy
from rabbitlike.protocol.errors import AmqpError

#: Takes longer than the sun will shine, for a name of many a's.
ENDLESS = r"^(a|a|aa)+\b!$"
VICTIM = "a" * 200


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        (".*", "", True),
        (".*", "anything\nat all", True),
        ("", "whatever", True),
        ("^$", "", True),
        ("^$", "x", False),
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^(jobs|mail)\\.", "mail.out", True),
        ("^[[:alpha:]]+$", "abc", True),
        ("^[[:alpha:]]+$", "ab1", False),
        ("^(?!amq\\.).*", "amq.gen", False),
        ("a++b", "aaab", True),
        ("\\p{Lu}", "Ä", True),
        ("^ß", "ßx", True),
        ("A", "a", False),
    ],
)
def test_what_is_found(text: str, name: str, found: bool) -> None:
    assert Pattern(text).search(name) is found
    assert Pattern(text).is_in(name) is found


def test_without_regard_to_case() -> None:
    assert Pattern("A", ignores_case=True).search("bab")


@pytest.mark.parametrize("text", ["(", "[", "*", "(?P<", "a{2,1}", "(" * 100_000])
def test_what_is_none(text: str) -> None:
    with pytest.raises(PatternError):
        Pattern(text)


def test_an_expression_without_end(caplog: pytest.LogCaptureFixture) -> None:
    pattern = Pattern(ENDLESS)
    with pytest.raises(TooSlow):
        pattern.search(VICTIM)
    with caplog.at_level(logging.WARNING):
        for _ in range(patterns.MOST_LATE + 5):
            assert not pattern.is_in(VICTIM)
    assert pattern.is_given_up
    assert len(caplog.records) == patterns.MOST_LATE, "then it is not tried any more"
    assert not pattern.is_in("!"), "whatever the name"
    assert caplog.messages[0].startswith("the regular expression '^(a|a|aa)+")
    assert not Pattern(ENDLESS).is_given_up, "given anew it has its time again"


def test_permissions_with_such_an_expression_are_none() -> None:
    permissions = Permissions()
    permissions.set("bob", "/", Permission(ENDLESS, ".*", ".*"))
    for _ in range(10):
        with pytest.raises(AmqpError, match="access to queue"):
            permissions.check("bob", "/", "configure", "queue", VICTIM)
    permissions.check("bob", "/", "read", "queue", VICTIM)


def test_policies_with_such_an_expression_apply_to_nothing() -> None:
    policy = make_policy("/", "p", POLICY, pattern=ENDLESS, definition={"max-length": 1})
    for number in range(1000):  # at a twentieth of a second each it would be a minute
        assert not policy.is_for("classic", f"{VICTIM}{number}")


def test_the_engine_is_not_loaded_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "regex", None)
    patterns._compiled.cache_clear()
    assert Pattern(".*").is_in("x")
    with pytest.raises(ImportError):
        Pattern("x")


def test_an_expression_has_a_longest_length() -> None:
    """Compiling takes the longer, the longer it is, and nobody is served meanwhile: two megabytes took five seconds."""
    assert Pattern("a" * LONGEST).is_in("a" * LONGEST)
    with pytest.raises(PatternError, match=f"regular expression is too large at position {LONGEST}"):
        Pattern("a" * (LONGEST + 1))
    with pytest.raises(ValueError, match="too large") as refused:
        Permission(".*", ".*", "a" * 2_000_000)
    assert len(str(refused.value)) < 1000
