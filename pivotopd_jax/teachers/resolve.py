"""Maps an action named by a teacher onto what the environment accepts (arXiv 2609.40285, recovery rollouts)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pivotopd_jax.prompts.actions import normalise
from pivotopd_jax.records import Observation
from pivotopd_jax.teachers.protocol import Situation, Teacher

ARTICLES = frozenset({"a", "an", "the"})

_CALL = re.compile(r"([a-z]+)\[[^\[\]\n]+\]")


def resolve_action(
    named: str, admissible: Sequence[str] | None, *, free_verbs: Collection[str] = (), threshold: float = 0.5
) -> str | None:
    """The admissible action that `named` means, tried in a fixed order.

    Equal after normalisation; a free verb with anything between its brackets; equal without articles; contained by
    exactly one admissible action; highest token overlap (Jaccard) above `threshold` with a strict winner.

    Args:
        named: the teacher's words.
        admissible: what the environment accepts; None for an open action space, where `named` is taken as it is.
        free_verbs: verbs that it accepts with any argument.
        threshold: least overlap, exclusive.

    Returns:
        The admissible action, or None.
    """
    wanted = normalise(named)
    if admissible is None or not wanted:
        return (wanted and named.strip()) or None
    called = _CALL.fullmatch(named.strip())
    for reading in (normalise, _without_articles):
        equal = [action for action in admissible if reading(action) == reading(named)]
        if equal:
            return equal[0]
        if called and called[1] in free_verbs:
            return named.strip()
    containing = [action for action in admissible if wanted in normalise(action)]
    if len(containing) == 1:
        return containing[0]
    return _closest(wanted, admissible, threshold)


def _without_articles(action: str) -> str:
    return " ".join(word for word in normalise(action).split() if word not in ARTICLES)


def _closest(wanted: str, admissible: Sequence[str], threshold: float) -> str | None:
    words = set(wanted.split())
    overlap = {a: len(words & set(normalise(a).split())) / len(words | set(normalise(a).split())) for a in admissible}
    ranked = sorted(overlap, key=lambda a: -overlap[a])
    if not ranked or overlap[ranked[0]] <= threshold:
        return None
    strict = len(ranked) == 1 or overlap[ranked[0]] > overlap[ranked[1]]
    return ranked[0] if strict else None


def resolved(named: str, observation: Observation) -> str | None:
    """The action that `named` means where `observation` is shown, or None; see `resolve_action`."""
    return resolve_action(named, observation.admissible, free_verbs=observation.free_verbs)


def resolved_actions(teacher: Teacher, situations: Sequence[Situation]) -> list[str | None]:
    """What `teacher` would do in each situation, as an admissible action; None where it names none that is possible."""
    return [
        resolved(named, situation.observation) if named else None
        for named, situation in zip(teacher.recovery_actions(situations), situations, strict=True)
    ]
