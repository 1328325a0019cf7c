"""The engine of SWE tasks: bash commands in a repository until the student says that it is done; then the tests judge.

The interface is mini-swe-agent's: each command in a shell of its own, and a command ends the episode when the first
line of its output is `DONE` and its exit status 0. Nothing of a command lives on but the files of the repository.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pivotopd_jax.envs.protocol import Snapshot
from pivotopd_jax.envs.swe.changes import Changes
from pivotopd_jax.envs.swe.finishing import is_submission
from pivotopd_jax.envs.swe.grading import Verdict, grade
from pivotopd_jax.envs.swe.instances import Instance
from pivotopd_jax.envs.swe.sandbox import Ran, Sandbox, Tree
from pivotopd_jax.records import Observation, StepResult, Task

EXPECTED = "Nothing was done. Expected exactly one command, of at most 20000 characters."
MAX_COMMAND_CHARACTERS = 20_000

_ENDINGS = {
    "timeout": "The command was stopped after {seconds:g} seconds.",
    "lost": "The command ended its own sandbox ({why}); the files are as they were before it.",
}


class Assignment(NamedTuple):
    """What a SWE task starts from.

    Attributes:
        instance: what is asked for, and the tests that tell.
        sandbox: where the repository lies.
        changes: what can be done, where only a few commands are carried out; None: any.
    """

    instance: Instance
    sandbox: Sandbox
    changes: Changes | None = None


@dataclass(frozen=True)
class EpisodeLimits:
    """What an episode may use up; where it runs out, the episode is over and lost.

    Attributes:
        seconds: of all commands together.
        characters: of all observations together.
    """

    seconds: float = 3600.0
    characters: int = 1_000_000


class Said(NamedTuple):
    """A command of an episode, and what was shown of it."""

    command: str
    shown: str
    status: int


class SweSnapshot(NamedTuple):
    """One moment of an episode.

    Attributes:
        assignment: compared by identity.
        tree: the files.
        said: the commands so far.
        seconds: that they took.
        observation: what was last shown.
        done: the episode is over.
        verdict: of the tests; None before the end, and where a limit ended the episode.
    """

    assignment: Assignment
    tree: Tree
    said: tuple[Said, ...]
    seconds: float
    observation: Observation
    done: bool = False
    verdict: Verdict | None = None

    @property
    def won(self) -> bool:
        """The task is solved."""
        return self.verdict is not None and self.verdict.resolved


def show(ran: Ran, limit: float) -> str:
    """What is shown of a command, as mini-swe-agent does; `limit` is its time limit in seconds."""
    head, tail, missing = ran.output
    parts = [f"<returncode>{ran.status}</returncode>"]
    if ran.ending in _ENDINGS:
        parts.append(f"<exception>{_ENDINGS[ran.ending].format(seconds=limit, why=ran.why)}</exception>")
    if missing:
        parts += [
            "<warning>The output was too long. Look at less at once, or search in it.</warning>",
            f"<output_head>\n{head}\n</output_head>",
            f"<elided>{missing} bytes</elided>",
            f"<output_tail>\n{tail}\n</output_tail>",
        ]
    else:
        parts.append(f"<output>\n{head}{'' if head.endswith(chr(10)) or not head else chr(10)}</output>")
    return "\n".join(parts)


class SweEnv:
    """One running episode; `reset` takes tasks whose `source` is an `Assignment`."""

    def __init__(self, *, command_seconds: float = 60.0, limits: EpisodeLimits = EpisodeLimits()) -> None:
        """`command_seconds`: time limit of a command. `limits`: of the whole episode."""
        self._seconds, self._limits = command_seconds, limits
        self._now: SweSnapshot | None = None

    def reset(self, task: Task) -> Observation:
        """Starts `task` with its problem statement.

        Raises:
            TypeError: `task.source` is not an assignment.
            SandboxUnavailable: the repository cannot be laid out here.
        """
        if not isinstance(task.source, Assignment):
            raise TypeError(f"task {task.id!r}: expected an Assignment as its source, got {type(task.source).__name__}")
        shown = _observation(task.source, (), task.source.instance.statement)
        self._now = SweSnapshot(task.source, task.source.sandbox.start, (), 0.0, shown)
        return shown

    def step(self, action: str) -> StepResult:
        """Carries a bash command out; what is none changes nothing and is told what is expected.

        Returns:
            reward 1.0 for a submission that solves the task; 0.0 otherwise. A submission ends the episode, and so
            does a limit that has run out.

        Raises:
            RuntimeError: before `reset`, or after the end.
            SandboxUnavailable: nothing can be run here.
        """
        now = self._current()
        if now.done:
            raise RuntimeError("step() after the end; call reset(task) or restore(snapshot) first")
        self._now = now = self._run(now, action) if self.accepts(action) else self._refused(now)
        return StepResult(now.observation, float(now.won), now.done, now.won)

    def accepts(self, action: str) -> bool:
        """Whether `action` would be carried out now."""
        now = self._current()
        possible = bool(action.strip()) and len(action) <= MAX_COMMAND_CHARACTERS and "\0" not in action
        offered = now.observation.admissible
        return not now.done and possible and (offered is None or action in offered)

    def snapshot(self) -> SweSnapshot:
        """The present moment.

        Raises:
            RuntimeError: before `reset`.
        """
        return self._current()

    def restore(self, snapshot: Snapshot) -> Observation:
        """Goes back to a moment of any episode and returns what was last shown then.

        Raises:
            TypeError: `snapshot` is not a `SweSnapshot`.
        """
        if not isinstance(snapshot, SweSnapshot):
            raise TypeError(f"expected a SweSnapshot, got {type(snapshot).__name__}")
        self._now = snapshot
        return snapshot.observation

    def _current(self) -> SweSnapshot:
        if self._now is None:
            raise RuntimeError("no episode is running; call reset(task) or restore(snapshot) first")
        return self._now

    def _run(self, now: SweSnapshot, command: str) -> SweSnapshot:
        ran = now.assignment.sandbox.run(now.tree, command, seconds=self._seconds)
        if is_submission(ran):
            verdict = grade(now.assignment.instance, now.assignment.sandbox, ran.tree)
            return self._after(now, command, ran, "The work was handed in.")._replace(done=True, verdict=verdict)
        return self._ended(self._after(now, command, ran, show(ran, self._seconds)))

    def _after(self, now: SweSnapshot, command: str, ran: Ran, shown: str) -> SweSnapshot:
        said = (*now.said, Said(command, shown, ran.status))
        seen = _observation(now.assignment, said, shown)
        return now._replace(tree=ran.tree, said=said, seconds=now.seconds + ran.seconds, observation=seen)

    def _refused(self, now: SweSnapshot) -> SweSnapshot:
        return self._ended(now._replace(observation=_observation(now.assignment, now.said, EXPECTED)))

    def _ended(self, now: SweSnapshot) -> SweSnapshot:
        characters = sum(len(said.shown) for said in now.said)
        over = now.seconds > self._limits.seconds or characters > self._limits.characters
        return now._replace(done=True) if over else now


def _observation(assignment: Assignment, said: tuple[Said, ...], text: str) -> Observation:
    changes = assignment.changes
    return Observation(text, changes.commands(changes.taken([command for command, _, _ in said])) if changes else None)
