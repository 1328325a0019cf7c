"""The skill bank: what a teacher learned from the student's own rollouts, found again by the words of a task."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pivotopd_jax.files import write_json
from pivotopd_jax.records import Observation, Trajectory
from pivotopd_jax.teachers.protocol import Teacher


@dataclass(frozen=True)
class Skill:
    """One entry.

    Attributes:
        task: statement of the task it was learned from; what it is found by.
        text: advice in words.
    """

    task: str
    text: str


class SkillBank:
    """Skills with an index of their tasks (BM25, Lucene's variant).

    Attributes:
        skills: the entries, at least one.
    """

    def __init__(self, skills: Sequence[Skill]):
        """Builds the index.

        Raises:
            ValueError: no skill has a task with a word in it.
        """
        words = _words([skill.task for skill in skills])
        if not any(words):
            raise ValueError(f"a skill bank needs a skill with a task to find it by; {len(skills)} without were given")
        self.skills = tuple(skills)
        import bm25s  # runs JAX when it is imported; processes.join must come before

        self._index = bm25s.BM25(method="lucene")
        self._index.index(words, show_progress=False)

    def retrieve(self, task: str, count: int) -> list[Skill]:
        """The `count` skills whose tasks are most like `task`, the best first; the older of equals first."""
        known = [word for word in _words([task])[0] if word in self._index.vocab_dict]
        scores = self._index.get_scores(known) if known else np.zeros(len(self.skills))
        return [self.skills[i] for i in np.argsort(-scores, kind="stable")[:count]]

    def save(self, path: Path) -> None:
        """Writes the bank as a JSON list of {"task", "text"}."""
        write_json(path, [asdict(skill) for skill in self.skills], indent=1, ensure_ascii=False)

    @classmethod
    def load(cls, path: Path) -> SkillBank:
        """Reads what `save` wrote.

        Raises:
            ValueError: the file cannot be read, or does not hold such a list.
            FileNotFoundError: there is no such file.
        """
        try:
            return cls([_entry(entry) for entry in _list(json.loads(path.read_text()))])
        except FileNotFoundError:
            raise
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(
                f'{path} is not a skill bank ({error}); expected a JSON list of {{"task": .., "text": ..}}'
            ) from error


def _list(entries: Any) -> list[Any]:
    if not isinstance(entries, list):
        raise TypeError(f"it holds a {type(entries).__name__}")
    return entries


def _entry(entry: Any) -> Skill:
    task, text = entry["task"], entry["text"]
    if not (isinstance(task, str) and isinstance(text, str) and text.strip()):
        raise TypeError(f"an entry has the task {task!r} and the text {text!r}")
    return Skill(task, text)


def _words(texts: Sequence[str]) -> list[list[str]]:
    if not texts:
        return []
    import bm25s  # runs JAX when it is imported; processes.join must come before

    return bm25s.tokenize(list(texts), stopwords="en", return_ids=False, show_progress=False)  # type: ignore[return-value]


def distil_skills(
    teacher: Teacher, trajectories: Sequence[Trajectory], statement: Callable[[Observation], str], *, size: int
) -> SkillBank:
    """A bank of the lessons that `teacher` draws from `trajectories`.

    Args:
        teacher: reads the trajectories.
        trajectories: the student's own rollouts.
        statement: of the task, from the first observation.
        size: most entries; the first of each kind of task come before the second of any.

    Raises:
        ValueError: the teacher wrote no lesson at all.
    """
    reports = teacher.reports(trajectories, max_actions=0, every_turn=False, lessons=True)
    by_kind: dict[str, dict[Skill, None]] = {}
    for trajectory, report in zip(trajectories, reports, strict=True):
        if report.lesson and trajectory.turns:
            skill = Skill(statement(trajectory.turns[0].observation), report.lesson)
            by_kind.setdefault(trajectory.task.kind, {})[skill] = None
    ranked = [(rank, skill) for skills in by_kind.values() for rank, skill in enumerate(skills)]
    ranked.sort(key=lambda item: item[0])
    if not ranked:
        raise ValueError(f"the teacher wrote no lesson on {len(trajectories)} trajectories; there is no skill to keep")
    return SkillBank([skill for _, skill in ranked[:size]])
