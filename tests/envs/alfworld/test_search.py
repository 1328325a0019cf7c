"""Canonical situations and shortest plans between them, against numbers counted by hand."""

from __future__ import annotations

import math

import pytest

from pivotopd_jax.envs.alfworld.bound import lower_bound
from pivotopd_jax.envs.alfworld.search import Distances, edges
from pivotopd_jax.envs.alfworld.situation import (
    DONE,
    EMPTY,
    FIXED,
    GOAL,
    HAND_DONE,
    HAND_PLAIN,
    HAND_TAGGED,
    HOLDS,
    HOLDS_OTHER,
    LAMP,
    LIT,
    OPEN,
    OTHER,
    PLAIN,
    STATION,
    Aim,
    Situation,
    covers,
    is_won,
    make_situation,
    placed,
    tag_bit,
)
from pivotopd_jax.envs.protocol import SearchLimit

PLACE, LOOK, TWO = Aim(False, 1), Aim(True, 1), Aim(False, 2)
SHELF = HOLDS | OPEN
GOAL_SHELF = GOAL | SHELF
GOAL_DRAWER = GOAL | HOLDS  # shut
SINK = STATION | SHELF
TAG = tag_bit(0)


@pytest.mark.parametrize(
    ("aim", "hand", "here", "elsewhere", "distance"),
    [
        # take, go, put
        (PLACE, EMPTY, [SHELF + DONE], [[GOAL_SHELF]], 3),
        # go, open, take, go, open, put
        (PLACE, EMPTY, [], [[HOLDS + DONE], [GOAL_DRAWER]], 6),
        # both at one place: go, take, open, put
        (PLACE, EMPTY, [], [[SHELF + DONE, GOAL_DRAWER]], 4),
        # go, take, go, clean, go, put
        (PLACE, EMPTY, [], [[SHELF + PLAIN], [SINK], [GOAL_SHELF]], 6),
        # a dirty one lies in the goal: take, go, clean, go, put
        (PLACE, EMPTY, [GOAL_SHELF + PLAIN], [[SINK]], 5),
        # put the dirty one down, take the clean one, put it: no way to the sink is needed
        (PLACE, HAND_PLAIN, [GOAL_SHELF, SHELF + DONE], [[SINK]], 3),
        # go, put another thing down, then as above
        (PLACE, OTHER, [SHELF + DONE], [[HOLDS_OTHER | OPEN], [GOAL_SHELF]], 6),
        # nothing takes the other thing
        (PLACE, OTHER, [SHELF + DONE], [[GOAL_SHELF]], math.inf),
        # nothing cleans
        (PLACE, HAND_PLAIN, [SHELF], [[GOAL_SHELF]], math.inf),
        # nothing to place
        (PLACE, EMPTY, [SHELF], [[GOAL_SHELF]], math.inf),
        # held in one place and lying in the goal: cleaning it wins
        (PLACE, HAND_TAGGED, [SINK], [[GOAL_SHELF | TAG]], 1),
        # go to its second place, take it there, go, clean it
        (PLACE, EMPTY, [], [[GOAL_SHELF | TAG], [SHELF | TAG], [SINK]], 4),
        # take, use
        (LOOK, EMPTY, [OPEN | LAMP, OPEN + DONE], [], 2),
        # go, take, go: the lamp burns already
        (LOOK, EMPTY, [], [[OPEN + DONE], [OPEN | LAMP | LIT]], 3),
        # one lies there: go, take, go, put
        (TWO, EMPTY, [], [[SHELF + DONE], [GOAL_SHELF + DONE]], 4),
        # one that cannot be moved counts too
        (TWO, HAND_DONE, [], [[GOAL_SHELF + FIXED]], 2),
        # go, take, go, put, go, take, go, put
        (TWO, EMPTY, [], [[SHELF + DONE], [SHELF + DONE], [GOAL_SHELF]], 8),
        # one in each of two goal drawers: go, open, take, go, open, put
        (TWO, EMPTY, [], [[GOAL_DRAWER + DONE], [GOAL_DRAWER + DONE]], 6),
        # there is only one
        (TWO, HAND_DONE, [GOAL_SHELF], [], math.inf),
        # the held one counts in the goal already: go, put it down, take the other, go, put
        (TWO, HAND_TAGGED + 1, [], [[GOAL_SHELF | 3 * TAG], [SHELF + DONE]], 5),
    ],
)
def test_distances_counted_by_hand(aim, hand, here, elsewhere, distance):
    situation = make_situation(hand, here, elsewhere)
    assert Distances()(aim, situation) == distance
    assert lower_bound(aim, situation) <= distance


def test_the_bound_is_exact_where_nothing_was_relaxed():
    assert lower_bound(PLACE, make_situation(EMPTY, [], [[SHELF + PLAIN], [SINK], [GOAL_SHELF]])) == 6
    assert lower_bound(TWO, make_situation(EMPTY, [], [[SHELF + DONE], [SHELF + DONE], [GOAL_SHELF]])) == 8


def test_interchangeable_and_useless_things_vanish():
    situation = make_situation(
        EMPTY,
        [OPEN],
        [
            [GOAL_SHELF],
            [GOAL_SHELF],  # the same again
            [GOAL_DRAWER],  # a goal shelf can do all a shut goal drawer can
            [SHELF, SHELF + DONE],  # what the empty one can do, so can the other
            [GOAL | OPEN],  # of the goal's type, but takes nothing
        ],
    )
    assert situation == Situation(EMPTY, (), ((GOAL_SHELF,), (SHELF + DONE,)))


def test_nothing_is_dropped_while_an_object_counts_twice():
    tagged = make_situation(HAND_TAGGED, [SHELF], [[SHELF], [SHELF | TAG]])
    assert tagged == Situation(HAND_TAGGED, (SHELF,), ((SHELF,), (SHELF | TAG,)))
    single = make_situation(HAND_TAGGED, [SHELF], [[SHELF]])
    assert single == Situation(HAND_PLAIN, (SHELF,), ())


def test_places_with_objects_are_never_covered():
    assert covers((GOAL_SHELF,), (GOAL_DRAWER, SHELF))
    assert not covers((GOAL_SHELF,), (SHELF + DONE,))
    assert not covers((GOAL_DRAWER,), (GOAL_SHELF,))


def test_placed_counts_every_kind_of_object():
    assert placed(GOAL_SHELF + 2 * DONE + FIXED + PLAIN + 3 * tag_bit(1) + tag_bit(2)) == 4
    assert is_won(TWO, make_situation(EMPTY, [], [[GOAL_SHELF + DONE + FIXED]]))
    assert not is_won(TWO, make_situation(EMPTY, [], [[GOAL_SHELF + DONE], [GOAL_SHELF + DONE]]))


def test_all_edges_of_a_situation():
    situation = make_situation(HAND_PLAIN, [SINK, GOAL_DRAWER], [[GOAL_SHELF + DONE]])
    assert sorted((edge.verb, edge.target) for edge in edges(situation)) == [
        ("go", (GOAL_SHELF + DONE,)),
        ("open", (GOAL_DRAWER,)),
        ("put", (SINK,)),
        ("treat", (SINK,)),
    ]


def test_best_edges_lead_one_turn_nearer_and_are_of_one_verb():
    distances = Distances()
    situation = make_situation(EMPTY, [SHELF + DONE], [[GOAL_SHELF], [SHELF + DONE]])
    assert [edge.verb for edge in distances.best_edges(PLACE, situation)] == ["take"]
    assert distances(PLACE, distances.best_edges(PLACE, situation)[0].after) == 2
    assert distances.best_edges(PLACE, make_situation(EMPTY, [SHELF], [[GOAL_SHELF]])) == ()


def test_a_spent_budget_is_no_answer():
    situation = make_situation(EMPTY, [], [[SHELF + PLAIN], [SINK], [GOAL_SHELF]])
    with pytest.raises(SearchLimit, match="larger budget"):
        Distances(budget=3)(PLACE, situation)
    assert Distances(budget=6)(PLACE, situation) == 6


def test_a_full_memory_forgets_and_still_answers_right():
    distances = Distances(capacity=1)
    near = make_situation(EMPTY, [SHELF + DONE], [[GOAL_SHELF]])
    far = make_situation(EMPTY, [], [[HOLDS + DONE], [GOAL_DRAWER]])
    assert [distances(PLACE, situation) for situation in (near, far, near, far)] == [3, 6, 3, 6]
