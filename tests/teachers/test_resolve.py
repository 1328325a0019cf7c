"""The five steps in which a named action is mapped onto the admissible ones."""

from __future__ import annotations

import pytest

from pivotopd_jax.teachers.resolve import resolve_action

ADMISSIBLE = ("go to shelf 1", "go to shelf 10", "open drawer 2", "take mug 1 from shelf 1", "look")


@pytest.mark.parametrize(
    ("named", "resolved"),
    [
        ("Go to  SHELF 1", "go to shelf 1"),  # equal after normalisation, though also contained by two
        ("open the drawer 2", "open drawer 2"),  # equal without articles
        ("take mug 1", "take mug 1 from shelf 1"),  # contained by exactly one
        ("go to shelf", None),  # contained by two, and a tie in overlap
        ("please open drawer 2 now", "open drawer 2"),  # overlap 3/5 > 0.5, the only winner
        ("open drawer 2 and then close it again", None),  # overlap 3/8
        ("sing", None),
        ("", None),
        ("   ", None),
    ],
)
def test_resolve(named, resolved):
    assert resolve_action(named, ADMISSIBLE) == resolved


def test_an_open_action_space_takes_the_words_as_they_are():
    assert resolve_action(" search[red shoes] ", None) == "search[red shoes]"
    assert resolve_action(" ", None) is None


def test_the_threshold_is_exclusive():
    assert resolve_action("open drawer", ("open cupboard", "look")) is None  # 1/3
    assert resolve_action("go north fast", ("go north", "look"), threshold=2 / 3) is None
    assert resolve_action("go north fast", ("go north", "look"), threshold=0.6) == "go north"


@pytest.mark.parametrize(
    ("named", "resolved"),
    [
        (" search[Green boots] ", "search[Green boots]"),  # free, whatever is in the list
        ("search[blue  Boots]", "search[blue boots]"),  # in the list
        ("click[green boots]", None),
        ("search[]", None),
        ("search[a][b]", None),
        ("please search[green boots]", None),
    ],
)
def test_a_free_verb_takes_any_argument(named, resolved):
    admissible = ("click[back to search]", "search[blue boots]")
    assert resolve_action(named, admissible, free_verbs=("search",)) == resolved
    if resolved == named.strip():
        assert resolve_action(named, admissible) is None
