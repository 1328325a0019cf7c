"""What a planner writes: the general part of what is left to do."""

from __future__ import annotations

from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.prompts.alfworld import AlfWorldWording
from pivotopd_jax.teachers.lessons import PlanLessons


def test_a_lesson_is_the_gist_of_the_plan_and_gives_no_place_away():
    world = AlfWorld("generated", receptacles=5, distractors=1)
    advise = PlanLessons(world, AlfWorldWording().gist)
    verbs = {"Clean": "clean ", "Heat": "heat ", "Cool": "cool ", "Look": "use "}
    for task in world.tasks("test")[:30]:
        env = world.make()
        env.reset(task)
        lesson = advise(env.snapshot())
        assert lesson
        assert not any(character.isdigit() for character in lesson)
        assert " from " not in lesson
        assert verbs.get(task.kind, "take ") in lesson
        assert lesson.count("take ") == (2 if task.kind == "Pick2" else 1)


def test_nothing_is_left_to_say_at_the_end(toy):
    advise = PlanLessons(toy.world, toy.prompter.wording.gist)
    env = toy.world.make()
    env.reset(toy.world.tasks("train")[1])
    assert advise(env.snapshot()) == "grab"
    env.step("right")
    env.step("grab")
    assert advise(env.snapshot()) is None
