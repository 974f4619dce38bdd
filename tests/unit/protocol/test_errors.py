"""Reply codes, their names and levels, and the text a client gets to see."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import exceptions

from rabbitlike.protocol import errors
from rabbitlike.protocol.errors import AmqpError
from tests.unit.protocol.wire_values import QUIET

MAKERS: dict[int, Callable[[str], AmqpError]] = {
    311: errors.content_too_large,
    312: errors.no_route,
    313: errors.no_consumers,
    320: errors.connection_forced,
    402: errors.invalid_path,
    403: errors.access_refused,
    404: errors.not_found,
    405: errors.resource_locked,
    406: errors.precondition_failed,
    501: errors.frame_error,
    502: errors.syntax_error,
    503: errors.command_invalid,
    504: errors.channel_error,
    505: errors.unexpected_frame,
    506: errors.resource_error,
    530: errors.not_allowed,
    540: errors.not_implemented,
    541: errors.internal_error,
}


@pytest.mark.parametrize("code", MAKERS)
def test_each_maker_gives_its_code_name_and_level(code: int) -> None:
    """#1 The level follows from the code alone, as pamqp's table of the specification has it."""
    error = MAKERS[code]("why")
    known = exceptions.CLASS_MAPPING[code]
    assert (error.code, error.text, error.class_id, error.method_id) == (code, "why", 0, 0)
    assert error.is_hard == issubclass(known, exceptions.AMQPHardError)
    assert error.name == vars(known)["name"].replace("-", "_")


def test_every_code_has_a_maker() -> None:
    assert MAKERS.keys() == errors.NAMES.keys()


def test_reply_text_is_name_dash_explanation() -> None:
    """#1"""
    error = errors.not_found("no queue 'q' in vhost '/'")
    assert error.reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert str(error) == "404 NOT_FOUND - no queue 'q' in vhost '/'"


@pytest.mark.parametrize(
    ("character", "kept"), [("a", 240), ("é", 120), ("€", 80), ("😀", 60), ("\udcff", 240), ("\udc80", 237)]
)
def test_reply_text_is_cut_between_characters(character: str, kept: int) -> None:
    """#1 255 octets, not characters, the last three are dots. Of lone continuation octets up to three are cut off."""
    text = errors.not_found(character * 300).reply_text
    assert text == "NOT_FOUND - " + character * kept + "..."


@QUIET
@given(st.binary(max_size=400))
def test_any_text_fits_a_shortstr(octets: bytes) -> None:
    """#1"""
    explanation = octets.decode("utf-8", "surrogateescape")
    text = errors.precondition_failed(explanation).reply_text
    assert len(text.encode("utf-8", "surrogateescape")) <= 255
    whole = f"PRECONDITION_FAILED - {explanation}"
    assert text == whole or whole.startswith(text.removesuffix("..."))


@QUIET
@given(st.text(min_size=250, max_size=300))
def test_cutting_loses_less_than_one_character(text: str) -> None:
    cut = errors.cut_to_shortstr(text)
    if cut == text:
        return
    head = cut.removesuffix("...")
    assert len(cut) - len(head) == 3
    assert text.startswith(head)
    assert len((cut + text[len(head)]).encode()) > 255
