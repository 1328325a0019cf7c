"""One episode being played: the environment, the turns so far, and how it ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pivotopd_jax.envs.protocol import Env, Snapshot
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Observation, Task, Trajectory, Turn
from pivotopd_jax.sampling.policy import Sample


class Episode:
    """An episode under way.

    Attributes:
        task, group: as in `records.Trajectory`.
        turns: played so far.
        observation: shown now.
        snapshot: the environment's state now.
        advice: shown with every turn of this episode; empty for none.
    """

    def __init__(
        self,
        env: Env,
        prompter: Prompter,
        task: Task,
        group: int,
        observation: Observation,
        max_turns: int,
        advice: str = "",
    ):
        self.env, self.prompter, self.task, self.group = env, prompter, task, group
        self.observation, self.max_turns, self.advice = observation, max_turns, advice
        self.turns: list[Turn] = []
        self.snapshot: Snapshot = env.snapshot()
        self.score, self.won, self.done = 0.0, False, False

    @classmethod
    def start(
        cls,
        env: Env,
        prompter: Prompter,
        task: Task,
        group: int,
        max_turns: int,
        advise: Callable[[Observation], str] | None = None,
    ) -> Episode:
        """A new episode of `task`, with the advice that `advise` gives on its first observation."""
        first = env.reset(task)
        return cls(env, prompter, task, group, first, max_turns, advise(first) if advise else "")

    @classmethod
    def resume(cls, env: Env, prompter: Prompter, trajectory: Trajectory, turn: int, max_turns: int) -> Episode:
        """The episode as it stood after turn `turn` (0-based) of `trajectory`, turns already used up included."""
        env.restore(trajectory.snapshot_after(turn))
        observation = trajectory.observation_after(turn)
        episode = cls(env, prompter, trajectory.task, trajectory.group, observation, max_turns)
        episode.turns = list(trajectory.turns[: turn + 1])
        episode.score = sum(t.reward for t in episode.turns)
        return episode

    @property
    def finished(self) -> bool:
        return self.done or len(self.turns) >= self.max_turns

    def context(self, hint: str = "") -> np.ndarray:
        """The student's context at this turn, `[context_length]` int32; a hint stands in the place of the advice."""
        return self.prompter.context(self.turns, self.observation, hint or self.advice)

    def respond(self, context_ids: np.ndarray, sample: Sample) -> None:
        """Plays what the student said under `context_ids`."""
        response = self.prompter.chat.decode(sample.response_ids)
        action = self.prompter.wording.parse(response) if sample.ended else None
        self._play(context_ids, sample.response_ids, sample.log_probs, response, action, "student")

    def force(self, action: str) -> None:
        """Plays `action` on a teacher's behalf, as the shortest response that carries it out."""
        ids = self.prompter.said(action)
        response = self.prompter.wording.format(action)
        self._play(self.context(), ids, np.zeros(len(ids), np.float32), response, action, "teacher")

    def _play(self, context_ids, response_ids, log_probs, response, action, actor) -> None:
        accepted = action is not None and self.env.accepts(action)
        result = self.env.step(action or "")
        self.turns.append(
            Turn(
                self.observation, context_ids, response_ids, log_probs, response, action, result.reward,
                accepted, self.snapshot, actor,
            )
        )  # fmt: skip
        self.observation, self.snapshot = result.observation, self.env.snapshot()
        self.score += result.reward
        self.done, self.won = result.done, result.won

    def trajectory(self) -> Trajectory:
        """What has been played, as a record."""
        return Trajectory(
            self.task, self.group, tuple(self.turns), self.score, self.won, self.observation, self.snapshot
        )
