"""Users: who gets in by password."""

import base64
import hashlib

import pytest

from rabbitlike.broker.accounts.users import MD5, SHA256, SHA512, User, Users, hash_password


def test_the_default_user_is_an_administrator() -> None:
    user = Users().authenticate("guest", "guest")
    assert user is not None
    assert (user.name, user.tags) == ("guest", ("administrator",))


def test_another_default_user_or_none() -> None:
    users = Users("root", "secret")
    assert users.authenticate("root", "secret") is not None
    assert users.authenticate("guest", "guest") is None
    assert len(Users("")) == 0


@pytest.mark.parametrize(
    ("name", "password"), [("guest", "Guest"), ("guest", ""), ("Guest", "guest"), ("", ""), ("nobody", "guest")]
)
def test_wrong_credentials(name: str, password: str) -> None:
    """#29 a wrong name and a wrong password are told apart by nothing."""
    assert Users().authenticate(name, password) is None


def test_passwords_are_octets() -> None:
    """#27 anything but NUL may stand in a password, also octets that are not UTF-8."""
    password = b"\xff\xfe p\xc3\xa4ss".decode("utf-8", "surrogateescape")
    users = Users()
    users.add("u", password)
    assert users.authenticate("u", password) is not None
    assert users.authenticate("u", password + " ") is None


def test_the_hash_is_rabbitmqs() -> None:
    salt = b"\x90\x8d\xc6\x0a"
    digest = hashlib.sha256(salt + b"test12").digest()
    # The worked example of RabbitMQ's password guide.
    assert base64.b64encode(salt + digest).decode() == "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert hash_password("test12", salt=salt) == "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def test_salts_differ() -> None:
    assert hash_password("same") != hash_password("same")


@pytest.mark.parametrize("algorithm", [SHA256, SHA512, MD5])
def test_imported_hashes(algorithm: str) -> None:
    users = Users()
    users.add_hashed("u", hash_password("secret", algorithm), algorithm=algorithm, tags=["monitoring"])
    user = users.authenticate("u", "secret")
    assert user is not None
    assert user.tags == ("monitoring",)
    assert users.authenticate("u", "wrong") is None


def test_without_a_password_nobody_gets_in() -> None:
    users = Users()
    users.add("certified", "")
    user = users.get("certified")
    assert user is not None
    assert user.password_hash == ""
    assert users.authenticate("certified", "") is None
    assert users.authenticate("certified", "x") is None


@pytest.mark.parametrize(
    ("password_hash", "algorithm"),
    [
        ("c2E=", SHA256),
        ("c2FsdA==", SHA256),
        (hash_password("x", salt=b"salt"), SHA512),
        (hash_password("x", salt=b"salt"), MD5),
        ("IECV6PZI/Invh0DL187KFpkO5Jc=", SHA256),
    ],
)
def test_hashes_nothing_could_match(password_hash: str, algorithm: str, caplog: pytest.LogCaptureFixture) -> None:
    """parity: they are taken and kept, and nobody gets in."""
    users = Users()
    users.add_hashed("u", password_hash, algorithm=algorithm, tags=["monitoring"])
    assert users.get("u") == User("u", password_hash, algorithm, ("monitoring",))
    for password in ("x", "", "salt", "sa"):
        assert users.authenticate("u", password) is None
    assert "no password matches the hash of user 'u'" in caplog.text
    assert password_hash not in caplog.text


@pytest.mark.parametrize(
    ("password_hash", "algorithm"), [("not base64!", SHA256), (hash_password("x", salt=b"salt"), "rot13")]
)
def test_what_is_no_hash(password_hash: str, algorithm: str) -> None:
    users = Users()
    with pytest.raises(ValueError):
        users.add_hashed("u", password_hash, algorithm=algorithm)
    assert "u" not in users


def test_adding_again_replaces() -> None:
    users = Users()
    users.add("u", "one", tags=["management"])
    users.add("u", "two")
    assert users.authenticate("u", "one") is None
    assert users.authenticate("u", "two") == users.get("u")
    assert [user.name for user in users] == ["guest", "u"]


def test_tags_and_deletion() -> None:
    users = Users()
    users.set_tags("guest", ["impersonator"])
    user = users.authenticate("guest", "guest")
    assert user is not None
    assert user.tags == ("impersonator",)
    assert users.delete("guest") is True
    assert users.delete("guest") is False
    assert users.authenticate("guest", "guest") is None


def test_hashes_stay_out_of_logs() -> None:
    assert "kI3G" not in repr(User("u", "kI3GCqW5"))
