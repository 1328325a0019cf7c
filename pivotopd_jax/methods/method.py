"""A method as data: one choice for each stage of a step, and one pure function.

A step is collect → annotate → extend → score → shape → update. What each choice means is the business of the rooms
that carry it out; a method only names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pivotopd_jax.losses.advantages import group_advantages
from pivotopd_jax.losses.surrogate import Aggregation
from pivotopd_jax.records import TEACHER, TEACHER_HINTED, TokenBatch, View

Shape = Callable[..., Any]
"""(batch, log-probs `[rows, length]` by view, **what the method's schedule says) → advantages `[rows, length]`. Tokens
without a view carry the plain log-prob there, so that their difference is 0."""

Hint = Literal["gold_action", "reflection"]


@dataclass(frozen=True)
class Probe:
    """How the depth of rollouts follows what whole ones show (TurnOPD, arXiv 2607.05804).

    Attributes:
        every: steps between two steps of whole rollouts.
        warmup: first steps, all of whole rollouts.
        smoothing: weight of the newest probe in the running mean.
        coverage: share of successes that the depth has to hold.
        least: turns.
    """

    every: int = 8
    warmup: int = 3
    smoothing: float = 0.3
    coverage: float = 0.8
    least: int = 2


@dataclass(frozen=True)
class Pivots:
    """Single turns of offline episodes of the teacher, chosen once, before training (PivotRL, arXiv 2603.21383).

    Attributes:
        rollouts: of the untrained student at each turn.
        least, most: bounds of their mean reward; outside them a turn is not used.
    """

    rollouts: int = 8
    least: float = 0.1
    most: float = 0.6


@dataclass(frozen=True)
class Behaviour:
    """Who acts while trajectories are collected.

    A run is divided into `iterations` of equal length, and `share` says of each, counted from 1, how much is the
    teacher's ("mixture") or at most the student's ("switch").

    Attributes:
        actor: "student"; "expert", the teacher at every turn; "mixture", each turn the teacher's with probability
            `share`; "episodes", each whole episode; "switch", the student's for κ turns and the teacher's from there
            on, κ uniform over 0 .. `share` · turn limit; "prefix", the teacher's for the first turns.
        share: (iteration) → [0, 1].
        iterations: of a run.
        depth: (step) → most turns of an episode; None for the turn limit.
        prefix: (step, turns the teacher takes for the whole task) → how many of them it plays first.
        skills: how many skills of the bank the student is shown while it collects.
        probe: depth that follows the rollouts; None for none.
        pivots: episodes of one turn each from chosen states, in place of whole ones.
    """

    actor: Literal["student", "expert", "mixture", "episodes", "switch", "prefix"] = "student"
    share: Callable[[int], float] = field(default=lambda iteration: 1.0)
    iterations: int = 1
    depth: Callable[[int], int] | None = None
    prefix: Callable[[int, int], int] = field(default=lambda step, whole: 0)
    skills: int = 0
    probe: Probe | None = None
    pivots: Pivots | None = None


@dataclass(frozen=True)
class Labels:
    """Rows that a teacher's action is the response of, at the states that were visited.

    Attributes:
        turns: "every" visited state, or only those where the "teacher" acted.
    """

    turns: Literal["every", "teacher"] = "every"


@dataclass(frozen=True)
class Annotation:
    """What the teacher reads and which turns it marks.

    Attributes:
        turns: "named" for those its report names, "random" for as many at random, "every" for all, "final" for the last
            one of one failed trajectory a group, "none" if no report is asked for.
        max_actions: m, most gold actions a trajectory.
        hint: what a marked turn's hinted context says: the gold action, or a reflection that names nothing.
        lessons: what a turn's "lesson" context says: the "report"'s words on that turn, else on the episode; the
            "skills" that the bank holds for the task; the actions of the group's first "success"; or nothing.
        skills: how many.
    """

    turns: Literal["named", "random", "every", "final", "none"] = "named"
    max_actions: int = 5
    hint: Hint = "gold_action"
    lessons: Literal["report", "skills", "success"] | None = None
    skills: int = 0


@dataclass(frozen=True)
class Recovery:
    """Rows sampled after a mistake.

    Attributes:
        depth: K, recovery turns after each pivotal turn.
        limit: most pivotal turns followed up in one step, drawn uniformly.
        sampler: "hinted" samples from the privileged self-teacher, "plain" from the student itself.
        hint: what the hinted context says: the recovery action, or a reflection that names nothing.
    """

    depth: int
    limit: int = 64
    sampler: Literal["hinted", "plain"] = "hinted"
    hint: Hint = "gold_action"


@dataclass(frozen=True)
class Divergence:
    """A term of the objective that compares whole distributions, beside the per-token advantages.

    Attributes:
        function: (teacher's logits, student's logits) `[..., vocabulary]` → nats `[...]`, see `losses.divergences`.
        weight: of each token, relative to the same token in the policy-gradient loss.
        rows: kinds of rows it is taken on.
        view: what the teacher is: the frozen student in a privileged context, or the external "teacher".
    """

    function: Callable[[Any, Any], Any]
    weight: float
    rows: tuple[Literal["rollout", "recovery", "label"], ...]
    view: View = "hinted"


@dataclass(frozen=True)
class Penalty:
    """A term of the objective that is taken token by token on rollout rows, beside the surrogate.

    Attributes:
        function: (student's, frozen student's, teacher's log-probs) → nats, elementwise and minimised; the gradient
            runs through the first.
        weight: of its mean over tokens.
        view: whose log-probs the teacher's are; tokens without it are left out.
    """

    function: Callable[[Any, Any, Any], Any]
    weight: float
    view: View


def no_schedule(step: int, steps: int) -> Mapping[str, float]:
    """Nothing changes from step to step."""
    del step, steps
    return {}


@dataclass(frozen=True)
class StepAdvantage:
    """An advantage of each turn among the turns of its group that started from the same observation.

    Attributes:
        weight: beside A_RL.
        discount: γ, a turn's return is γ^(turns to come) · R.
    """

    weight: float
    discount: float


@dataclass(frozen=True)
class Method:
    """One point in the space of methods.

    Attributes:
        name: as in `--config.method=`.
        shape: turns scores into advantages.
        behaviour: who acts while trajectories are collected.
        annotation: None if no teacher reads the trajectories.
        extension: None for no recovery rows.
        labels: None for no rows of the teacher's actions.
        rollouts: what was played is trained on.
        views: contexts besides the plain one under which responses are scored by the frozen student, and "teacher" for
            the plain one, "teacher_hinted" for the hinted one under an external teacher.
        divergence: None for a loss of advantages only.
        penalty: likewise.
        schedule: (step, steps of the run) → keywords of `shape` that change from step to step.
        teacher: who names actions: as "configured", or the "student" as it was at the start of the step.
        replay: label rows of earlier steps are trained on again, as many as there are new ones.
        normalization: of A_RL, see `losses.advantages.group_advantages`.
        step_advantage: None for one advantage a trajectory.
        uniform_groups: rollouts of groups that all score the same are trained on too.
        update: settings of the update that belong to the method, in place of those of the configuration.
        aggregation: likewise; None for that of the configuration.
    """

    name: str
    shape: Shape
    behaviour: Behaviour = Behaviour()
    annotation: Annotation | None = None
    extension: Recovery | None = None
    labels: Labels | None = None
    rollouts: bool = True
    views: tuple[View, ...] = ()
    divergence: Divergence | None = None
    penalty: Penalty | None = None
    schedule: Callable[[int, int], Mapping[str, float]] = no_schedule
    teacher: Literal["configured", "student"] = "configured"
    replay: bool = False
    normalization: Literal["mean_std", "mean"] = "mean_std"
    step_advantage: StepAdvantage | None = None
    uniform_groups: bool = True
    update: Mapping[str, Any] = field(default_factory=dict)
    aggregation: Aggregation | None = None

    def advantages(self, batch: TokenBatch, views: Mapping[View, Any], *, step: int, steps: int) -> Any:
        """What `shape` makes of a batch at `step` of `steps`, `[rows, length]`."""
        return self.shape(batch, views, **self.schedule(step, steps))

    @property
    def needs_teacher_scores(self) -> bool:
        """An external teacher has to score the student's tokens."""
        return not {TEACHER, TEACHER_HINTED}.isdisjoint(self.views)

    @property
    def needs_teacher_logits(self) -> bool:
        """An external teacher has to give whole distributions."""
        return self.divergence is not None and self.divergence.view == TEACHER

    @property
    def needs_skills(self) -> bool:
        """A skill bank has to be there."""
        return bool(self.behaviour.skills or (self.annotation and self.annotation.lessons == "skills"))


def reward_advantages(method: Method, returns: Any, groups: Any) -> Any:
    """A_RL `[trajectories]` of returns `[trajectories]` and group ids `[trajectories]`."""
    return group_advantages(returns, groups, normalization=method.normalization)
