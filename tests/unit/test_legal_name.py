"""A legal queue name for any text (case 9)."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgqueue import legal_name
from pgqueue.names import tidy


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("orders", "orders"),
        ("my_queue_7", "my_queue_7"),
        ("9a", "9a"),
        ("chat:room-7", "chat_x3a_room_x2d_7"),
        ("Orders", "_x4f_rders"),
        ("größe", "gr_xf6__xdf_e"),
        ("a_x3a_b", "a_x5f_x3a_b"),
        ("", "_x_"),
        (" ", "_x20_"),
        ("x" * 47, "x" * 47),
    ],
)
def test_names_that_people_read(text: str, name: str) -> None:
    assert legal_name(text) == name


def test_long_texts_end_with_a_digest() -> None:
    name = legal_name("x" * 60)
    assert re.fullmatch("x{19}_y[a-z2-7]{26}", name)
    assert legal_name(name) != name, "what looks like a digest's name is another text"
    assert legal_name("x" * 61) != name


@given(st.text(max_size=80))
@example("\ud800")
@example("\x00")
@example("İ")
def test_every_text_has_a_legal_name(text: str) -> None:
    name = legal_name(text)
    assert tidy(name).name == name
    assert tidy(name).compilable
    assert re.fullmatch("[a-z0-9_]{1,47}", name)


@given(st.text(alphabet="ab_xy:Aé0", max_size=8), st.text(alphabet="ab_xy:Aé0", max_size=8))
@example("_:", "_x3a_")
@example("a_x", "a_x5f_x")
def test_two_texts_never_share_one(one: str, other: str) -> None:
    assert (legal_name(one) == legal_name(other)) == (one == other)


@given(st.text(max_size=12))
def test_short_names_tell_the_text(text: str) -> None:
    name = legal_name(text)
    if not re.search("_y[a-z2-7]{26}$", name):
        assert re.sub("_x([0-9a-f]*)_", lambda m: chr(int(m[1], 16)) if m[1] else "", name) == text
