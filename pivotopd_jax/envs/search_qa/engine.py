"""The engine of search-based question answering: search as often as one likes, answer once.

Left out on purpose: any judgement but exact match of the answer. What a passage says never counts as an action.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pivotopd_jax.envs.protocol import Snapshot
from pivotopd_jax.envs.search_qa.answers import exact_match
from pivotopd_jax.envs.search_qa.passages import Passage
from pivotopd_jax.envs.search_qa.questions import Question
from pivotopd_jax.envs.search_qa.retrieval import Retriever
from pivotopd_jax.records import Observation, StepResult, Task

VERBS = ("search", "answer")
TOP_K = 3
ASKED = "Question: "
OPENED, CLOSED = "<information>\n", "\n</information>"
NOTHING_FOUND = "No passage was found."
ANSWERED = "The answer was given."
EXPECTED = "Nothing was done. Expected exactly one of <search>query</search> and <answer>text</answer>, once."
MAX_PASSAGE_CHARACTERS = 4_000

_ACTION = re.compile(r"(search|answer)\[(.*)\]", re.DOTALL)


class Inquiry(NamedTuple):
    """What a task of search-based question answering starts from."""

    retriever: Retriever
    question: Question


class SearchSnapshot(NamedTuple):
    """One moment of an episode.

    Attributes:
        retriever: compared by identity.
        question: what is asked.
        seen: the passages that searches have shown.
        observation: what was last shown.
        done: an answer was given.
        won: it was right.
    """

    retriever: Retriever
    question: Question
    seen: frozenset[Passage]
    observation: Observation
    done: bool = False
    won: bool = False


def split_action(action: str) -> tuple[str, str] | None:
    """The verb and the argument of "search[..]" or "answer[..]", on one line and not empty; None for anything else."""
    found = _ACTION.fullmatch(action.strip())
    argument = found[2].strip() if found else ""
    return (found[1], argument) if found and len(argument.splitlines()) == 1 else None


def show(passages: list[Passage]) -> str:
    """The block that a search shows: passages as they are, but no "<", without which there is no tag to fake."""
    shown = "\n".join(_clipped(passage.contents.strip()) for passage in passages)
    return f"{OPENED}{shown.replace('<', '‹') or NOTHING_FOUND}{CLOSED}"


def _clipped(contents: str) -> str:
    return contents if len(contents) <= MAX_PASSAGE_CHARACTERS else f"{contents[:MAX_PASSAGE_CHARACTERS]} …"


class SearchQAEnv:
    """One running episode; `reset` takes tasks whose `source` is an `Inquiry`."""

    def __init__(self, *, top_k: int = TOP_K) -> None:
        """`top_k`: passages that a search shows."""
        self._top_k = top_k
        self._now: SearchSnapshot | None = None

    def reset(self, task: Task) -> Observation:
        """Starts `task` with its question.

        Raises:
            TypeError: `task.source` is not an inquiry.
        """
        if not isinstance(task.source, Inquiry):
            raise TypeError(f"task {task.id!r}: expected an Inquiry as its source, got {type(task.source).__name__}")
        retriever, question = task.source
        self._now = SearchSnapshot(retriever, question, frozenset(), _open(f"{ASKED}{question.text}"))
        return self._now.observation

    def step(self, action: str) -> StepResult:
        """Carries out `search[query]` or `answer[text]`; anything else changes nothing and is told what is expected.

        Returns:
            reward 1.0 for a right answer; 0.0 otherwise. Any answer ends the episode.

        Raises:
            RuntimeError: before `reset`, or after an answer.
            RetrieverFailure: the retriever is not in this process, and failed; the state is as before.
        """
        now = self._current()
        if now.done:
            raise RuntimeError("step() after an answer; call reset(task) or restore(snapshot) first")
        parts = split_action(action)
        if parts is None:
            now = now._replace(observation=_open(EXPECTED))
        elif parts[0] == "search":
            now = self._search(now, parts[1])
        else:
            right = exact_match(parts[1], now.question.golds)
            now = now._replace(observation=Observation(ANSWERED), done=True, won=right)
        self._now = now
        return StepResult(now.observation, float(now.won), now.done, now.won)

    def accepts(self, action: str) -> bool:
        """Whether `action` would be carried out now."""
        return not self._current().done and split_action(action) is not None

    def snapshot(self) -> SearchSnapshot:
        """The present moment.

        Raises:
            RuntimeError: before `reset`.
        """
        return self._current()

    def restore(self, snapshot: Snapshot) -> Observation:
        """Goes back to a moment of any episode and returns what was last shown then.

        Raises:
            TypeError: `snapshot` is not a `SearchSnapshot`.
        """
        if not isinstance(snapshot, SearchSnapshot):
            raise TypeError(f"expected a SearchSnapshot, got {type(snapshot).__name__}")
        self._now = snapshot
        return snapshot.observation

    def _current(self) -> SearchSnapshot:
        if self._now is None:
            raise RuntimeError("no episode is running; call reset(task) or restore(snapshot) first")
        return self._now

    def _search(self, now: SearchSnapshot, query: str) -> SearchSnapshot:
        found = [hit.passage for hit in now.retriever.search([query], self._top_k)[0]]
        return now._replace(seen=now.seen.union(found), observation=_open(show(found)))


def _open(text: str) -> Observation:
    return Observation(text, free_verbs=VERBS)
