"""Reduces an ALFWorld game to a few receptacles and distractors, so that small students can learn it.

What the goal needs stays, so a game that could be solved still can be. Things are numbered within their type, so the
numbers in names change. Results on thinned games are not ALFWorld scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from random import Random

from pivotopd_jax.envs.alfworld.games import GameError
from pivotopd_jax.envs.alfworld.pddl import GoalText, Problem, read_goal, read_problem

_APPLIANCE = {"clean": ("sink", "sinkbasin"), "hot": ("microwave",), "cool": ("fridge",)}


class ThinningError(GameError):
    """A game that cannot be made as small as asked for, or that could not be solved in the first place."""


def thin_problem(problem: str, *, receptacles: int, distractors: int, seed: int, id: str = "?") -> str:
    """The same problem with fewer things.

    Kept are the receptacles the goal needs (where one object asked for lies, or two; one it belongs to; a sink,
    microwave or fridge; the lamp's), then others at random. Objects that lie in none of them vanish.

    Args:
        problem: PDDL problem of the ALFRED domain.
        receptacles: how many receptacles to keep, at most; problems with fewer keep all of them.
        distractors: how many objects that can be picked up to keep, at most, beyond those the goal needs.
        seed: decides what is kept; the same arguments give the same text in every process.
        id: name of the game, for messages.

    Raises:
        GameError: not an ALFRED problem.
        ThinningError: the goal needs something that is not there, or more receptacles.
        ValueError: a negative number of distractors.
    """
    if distractors < 0:
        raise ValueError(f"distractors={distractors}: expected 0 or more")
    problem = re.sub(r";.*", "", problem)
    facts = read_problem(problem, id)
    random = Random(f"thin {seed} {receptacles} {distractors}")
    held = _held(facts)
    needed_objects, needed = _needs(facts, read_goal(facts.goal, id), held, random)
    if len(needed) > receptacles:
        raise ThinningError(
            f"game {id!r}: its goal needs {len(needed)} receptacles, so it cannot do with {receptacles}"
        )
    rest = [index for index in range(len(facts.receptacles)) if index not in needed]
    kept = needed | set(random.sample(rest, min(len(rest), receptacles - len(needed))))
    objects = needed_objects | _others(facts, held, kept, needed_objects, distractors, random)
    return _without(problem, {*_dropped(facts.objects, objects), *_dropped(facts.receptacles, kept)})


def _held(facts: Problem) -> dict[int, list[int]]:
    """Object -> the receptacles it is in."""
    held: dict[int, list[int]] = {}
    for thing, receptacle in sorted(facts.pairs("inreceptacle", facts.objects, facts.receptacles)):
        held.setdefault(thing, []).append(receptacle)
    return held


def _needs(facts: Problem, goal: GoalText, held: dict[int, list[int]], random: Random) -> tuple[set[int], set[int]]:
    """The objects and the receptacles one way of reaching the goal needs."""
    movable = facts.object_mask("pickupable") & facts.object_mask(goal.ability or "pickupable")
    candidates = [thing for thing in held if facts.object_types[thing] == goal.object_type and movable >> thing & 1]
    objects = set(_sample(facts, random, candidates, goal.count, f"{goal.object_type} that can be taken"))
    if goal.lamp_type:
        switchable = facts.object_mask("toggleable")
        lamps = [thing for thing in held if facts.object_types[thing] == goal.lamp_type and switchable >> thing & 1]
        objects |= set(_sample(facts, random, lamps, 1, f"{goal.lamp_type} that can be switched on"))
    receptacles = {random.choice(held[thing]) for thing in sorted(objects)}
    for types in _stations(facts, goal):
        stations = [index for index, type in enumerate(facts.receptacle_types) if type in types]
        receptacles |= set(_sample(facts, random, stations, 1, " or ".join(types)))
    return objects, receptacles


def _stations(facts: Problem, goal: GoalText) -> list[tuple[str, ...]]:
    """Receptacle types of which the goal needs one each."""
    stations = [_APPLIANCE[goal.property]] if goal.property else []
    if goal.receptacle_type:
        takes = (goal.receptacle_type, goal.object_type) in facts.can_contain
        stations.append((goal.receptacle_type,) if takes else ())
    return stations


def _sample(facts: Problem, random: Random, candidates: list[int], count: int, what: str) -> list[int]:
    if len(candidates) < count:
        what = what or "receptacle that takes the object"
        raise ThinningError(f"game {facts.id!r}: its goal needs {count} {what}, but the room has {len(candidates)}")
    return random.sample(candidates, count)


def _others(
    facts: Problem, held: dict[int, list[int]], kept: set[int], needed: set[int], distractors: int, random: Random
) -> set[int]:
    """Objects to keep beside the needed ones: some that can be picked up, and all that cannot."""
    seen = [thing for thing, inside in held.items() if thing not in needed and kept.intersection(inside)]
    movable = facts.object_mask("pickupable")
    loose = [thing for thing in seen if movable >> thing & 1]
    return {*random.sample(loose, min(distractors, len(loose))), *(thing for thing in seen if not movable >> thing & 1)}


def _dropped(index: dict[str, int], kept: Iterable[int]) -> set[str]:
    kept = set(kept)
    return {word for word, number in index.items() if number not in kept}


def _without(problem: str, dropped: set[str]) -> str:
    """The text without the declarations and facts that name one of `dropped` (lower-cased ids), each fact once."""
    sections = re.split(r"(\(:init|\(:goal)", problem, maxsplit=2, flags=re.IGNORECASE)
    objects, init_mark, init, goal_mark, goal = sections
    declared = [[word for word in line.split() if word.lower() not in dropped] for line in objects.splitlines()]
    facts = [fact.strip() for fact in init.replace(")", ")\n").splitlines()]
    kept = [fact for fact in facts if fact and dropped.isdisjoint(fact.lower().strip("()").split())]
    return "\n".join(
        [
            *(" ".join(words) for words in declared if words and words[0] != "-"),
            init_mark,
            *dict.fromkeys(kept[:-1]),
            kept[-1],  # closes the section
            goal_mark + goal,
        ]
    )
