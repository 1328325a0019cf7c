"""Teacher against oracle: counted by hand in a corridor, and in ALFWorld for a teacher with a known error rate."""

from __future__ import annotations

import itertools

import pytest
from toy_student import Scripted

from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.evaluation.agreement import agreement, agreement_text, chance, marked_turns
from pivotopd_jax.records import Trajectory, Turn
from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.teachers.protocol import Remark, Report
from pivotopd_jax.teachers.symbolic import SymbolicTeacher


class Marks:
    """Names "grab" at given turns of every trajectory."""

    def __init__(self, *turns: int):
        self.turns, self.outcomes, self.concurrency = turns, {}, 1

    def check(self):
        raise AssertionError("nothing is asked here")

    def reports(self, trajectories, *, max_actions, every_turn, lessons=False):
        return [Report(tuple(Remark(turn, "grab") for turn in self.turns[:max_actions])) for _ in trajectories]

    def recovery_actions(self, situations):
        raise AssertionError("nothing is asked here")


def walked(toy, actions: str, prize: int):
    """A failed walk; r and l are steps."""
    said = [f"<action>{ {'r': 'right', 'l': 'left'}[a] }</action>" for a in actions]
    tasks = toy.world.tasks("train")[prize : prize + 1]
    starts = fresh_starts(toy.world, toy.prompter, tasks, rollouts=1, max_turns=len(actions))
    return play(Scripted(toy.prompter.chat, said), starts, temperature=1.0, seed=0, concurrency=1)[0]


def test_marks_are_counted_near_the_first_mistake_of_failures(toy):
    # The prize lies in cell 2: turn 2 walks past it, turn 4 away from it.
    failed = walked(toy, "rrrlll", prize=2)
    never_wrong = walked(toy, "rr", prize=3)
    played = [failed, never_wrong]
    planner = toy.world.planner
    for turns, hit in (((1,), 1), ((3,), 1), ((2, 5), 1), ((4,), 0), ((0, 5), 0), ((), 0)):
        found = agreement(planner, [Marks(*turns)], played)
        assert (found.accuracy.value, found.accuracy.units, found.failures) == (hit, 1, 2)
    found = agreement(planner, [Marks(2), Marks(5)], played)
    assert (found.accuracy.value, found.samples, found.marked) == (0.5, 2, 1.0)
    assert found.random == pytest.approx(0.5)  # three turns of six are near
    assert "within one turn: 50.0 [50.0, 50.0]% (random 50.0%)" in agreement_text(found)
    assert agreement(planner, [Marks(0, 2)], played, max_actions=1).accuracy.value == 0
    with pytest.raises(ValueError, match="of 1 trajectories none failed by an oracle-pivotal mistake"):
        agreement(planner, [Marks(0)], [never_wrong])


def test_the_chance_of_turns_drawn_at_random_by_enumeration():
    for length, turn, count in itertools.product((1, 4, 7), (0, 3), (0, 1, 3)):
        if turn < length and count <= length:
            draws = list(itertools.combinations(range(length), count))
            near = sum(any(abs(other - turn) <= 1 for other in drawn) for drawn in draws)
            assert chance(length, turn, count, 1) == pytest.approx(near / len(draws))


@pytest.fixture(scope="module")
def failures():
    """Generated games in which whoever plays walks off to the first place and comes to nothing."""
    world = AlfWorld("generated", receptacles=4, distractors=1)
    return world, [lazy(world, task) for task in world.tasks("train")[:40]]


def lazy(world: AlfWorld, task):
    """An expert until it holds what it needs, then somebody who looks about."""
    env, planner, turns = world.make(), world.planner, []
    observation = env.reset(task)
    for _ in range(10):
        snapshot = env.snapshot()
        best = planner.next_action(snapshot, planner.observed(snapshot)) or "look"
        near = planner.distance(snapshot) <= 2
        away = next(a for a in observation.admissible or () if a.startswith("go to ") and a != best)
        action = away if near else best
        result = env.step(action)
        turns.append(Turn(observation, None, None, None, "", action, 0.0, True, snapshot))  # type: ignore[arg-type]
        observation = result.observation
    return Trajectory(task, 0, tuple(turns), 0.0, False, observation, env.snapshot())


def test_the_oracle_as_teacher_always_agrees_and_less_so_the_more_it_errs(failures):
    """A wrong name is one of the n − 1 other admissible actions; it marks no turn if it is what the student did."""
    world, played = failures

    def teacher(rate: float, seed: int = 0) -> SymbolicTeacher:
        return SymbolicTeacher(world.planner, report_knowledge="oracle", error_rate=rate, seed=seed)

    sure = agreement(world.planner, [teacher(0.0)], played)
    assert sure.accuracy.value == 1
    assert sure.random < 0.95
    reports = [marked_turns(teacher(1.0, seed), played, 5) for seed in range(20)]
    unmarked = expected = 0.0
    for index, trajectory in enumerate(played):
        for turn in marked_turns(teacher(0.0), [trajectory], 5)[0]:
            others = len(trajectory.turns[turn].observation.admissible or ()) - 1
            expected += 1 / others
            unmarked += sum(turn not in marks[index] for marks in reports) / len(reports)
    assert unmarked == pytest.approx(expected, rel=0.25)
