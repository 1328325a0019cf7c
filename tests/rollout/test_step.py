"""From trajectories to advantages: pivots, recoveries, views and the invariants of a step."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from ml_collections import ConfigDict
from toy_student import Scripted

from pivotopd_jax.learner.learner import DivergenceTerm, Learner, make_mesh, make_optimizer
from pivotopd_jax.learner.objective import UpdateOptions
from pivotopd_jax.methods import make_method
from pivotopd_jax.methods.method import Annotation, Recovery
from pivotopd_jax.models.qwen3 import apply, compute_logits
from pivotopd_jax.prompts.hints import REFLECTION, action_hint, lesson_hint
from pivotopd_jax.prompts.prompter import PrivilegedPrompt
from pivotopd_jax.records import PLAIN, Row
from pivotopd_jax.rollout.annotate import annotate
from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.rollout.extend import extend, followed_up
from pivotopd_jax.rollout.packing import Scored, pack
from pivotopd_jax.rollout.rows import batch_rows, divergence_batch, rollout_rows, score_views
from pivotopd_jax.teachers.symbolic import SymbolicTeacher

KNOBS = ConfigDict(
    {
        "normalization": "mean_std", "max_actions": 5, "recovery_depth": 1, "recovery_limit": 64,
        "recovery_mode": "clipped_advantage", "recovery_weight": 1.0, "recovery_clip": 5.0,
        "preventive_weight": 0.5, "lesson_weight": 0.0, "step_weight": 0.5, "discount": 0.5, "reward_weight": 1.0,
    }
)  # fmt: skip
LENGTH = 256


def forced(toy, actions: list[str], prize: int = 1, max_turns: int = 9):
    """What a student did who said `actions`."""
    policy = Scripted(toy.prompter.chat, [f"<action>{action}</action>" for action in actions])
    starts = fresh_starts(
        toy.world, toy.prompter, toy.world.tasks("train")[prize : prize + 1], rollouts=1, max_turns=max_turns
    )
    return play(policy, starts, temperature=1.0, seed=0, concurrency=1)[0]


@pytest.fixture
def wasteful(toy):
    """Finds the prize in cell 1, walks on, comes back and grabs it: turn 1 is the mistake."""
    return forced(toy, ["right", "right", "left", "grab"])


def teacher(toy, **options) -> SymbolicTeacher:
    return SymbolicTeacher(toy.world.planner, **options)


def test_the_mistake_is_named_and_nothing_else(toy, wasteful):
    notes = annotate(teacher(toy), [wasteful], Annotation(), seed=0)
    assert [(n.turn, n.gold_action, n.pivotal) for n in notes] == [(1, "grab", True)]


def test_every_turn_and_random_turns(toy, wasteful):
    every = annotate(teacher(toy), [wasteful], Annotation(turns="every"), seed=0)
    assert [(n.turn, n.pivotal) for n in every] == [(0, False), (1, True), (2, False), (3, False)]
    drawn = {
        tuple(n.turn for n in annotate(teacher(toy), [wasteful], Annotation(turns="random"), seed=s)) for s in range(20)
    }
    assert all(len(turns) == 1 for turns in drawn)
    assert len(drawn) > 1


def test_a_fallible_teacher_errs_at_its_rate_and_repeatably(toy):
    trajectories = [forced(toy, ["right", "right", "left", "grab"]) for _ in range(3)]
    sure, fallible = teacher(toy), teacher(toy, error_rate=1.0)
    right = annotate(sure, trajectories, Annotation(turns="every"), seed=0)
    wrong = annotate(fallible, trajectories, Annotation(turns="every"), seed=0)
    assert all(r.gold_action != w.gold_action for r, w in zip(right, wrong, strict=True))
    assert wrong == annotate(teacher(toy, error_rate=1.0), trajectories, Annotation(turns="every"), seed=1)


def test_lessons_come_from_where_the_method_says(toy):
    won, lost = forced(toy, ["right", "left", "right", "grab"]), forced(toy, ["right", "left"], max_turns=2)
    played = [lost, won, replace(lost, group=1)]
    notes = annotate(teacher(toy), played, Annotation(turns="none", lessons="success"), seed=0)
    assert {n.lesson for n in notes} == {"right, left, right, grab"}
    assert {n.trajectory for n in notes} == {0, 1}, "a group without a success has nothing to show"
    assert not any(n.pivotal or n.gold_action for n in notes)

    def skills(first, count):
        return f"{count} skills for {first.text}"

    shown = annotate(teacher(toy), played, Annotation(turns="none", lessons="skills", skills=2), seed=0, skills=skills)
    assert {n.lesson for n in shown} == {"2 skills for You are in cell 0."}
    assert len(shown) == sum(len(t.turns) for t in played)
    with pytest.raises(ValueError, match="there is no skill bank"):
        annotate(teacher(toy), played, Annotation(turns="none", lessons="skills"), seed=0)


def test_a_report_in_words_speaks_of_its_turn_or_of_the_episode(toy, wasteful):
    def advise(snapshot):
        return f"from cell {snapshot.cell}"

    notes = annotate(teacher(toy, advise=advise), [wasteful], Annotation(lessons="report"), seed=0)
    assert [n.lesson for n in notes] == ["from cell 0", "from cell 1", "from cell 0", "from cell 0"]
    assert [n.pivotal for n in notes] == [False, True, False, False]
    unasked = annotate(teacher(toy, advise=advise), [wasteful], Annotation(), seed=0)
    assert [n.lesson for n in unasked] == [None]


def test_skills_stand_in_the_training_prompts_of_skill_grpo(toy):
    def advise(first):
        return lesson_hint(f"grab it, {first.text}")

    starts = fresh_starts(
        toy.world, toy.prompter, toy.world.tasks("train")[1:2], rollouts=1, max_turns=2, advise=advise
    )
    policy = Scripted(toy.prompter.chat, ["<action>right</action>", "<action>grab</action>"])
    (played,) = play(policy, starts, temperature=1.0, seed=0, concurrency=1)
    for turn in (0, 1):
        shown = toy.prompter.context(
            played.turns[:turn], played.turns[turn].observation, lesson_hint("grab it, You are in cell 0.")
        )
        np.testing.assert_array_equal(played.turns[turn].context_ids, shown)
    (row, _) = rollout_rows([played], [], make_method("grpo", KNOBS), toy.prompter)
    np.testing.assert_array_equal(row.context_ids, played.turns[0].context_ids)


def recover(toy, trajectory, responses, depth=1, **options):
    policy = Scripted(toy.prompter.chat, responses)
    notes = annotate(teacher(toy), [trajectory], Annotation(), seed=0)
    extension = Recovery(depth, **options)
    points = followed_up([trajectory], notes, extension, seed=0)
    rows, outcomes = extend(
        policy, teacher(toy), toy.world, toy.prompter, [trajectory], points, extension, temperature=1.0, seed=0
    )  # fmt: skip
    return rows, outcomes, policy


def test_a_recovery_row_is_sampled_with_the_hint_and_trained_without(toy, wasteful):
    rows, outcomes, policy = recover(toy, wasteful, ["<action>left</action>"])
    (row,) = rows
    assert outcomes == {"rows": 1, "followed": 1}
    np.testing.assert_array_equal(row.context_ids, wasteful.turns[2].context_ids)
    expected = toy.prompter.context(wasteful.turns[:2], wasteful.turns[2].observation, action_hint("left"))
    np.testing.assert_array_equal(row.views["hinted"], expected)
    np.testing.assert_array_equal(policy.asked[0].context_ids, expected)
    toy.prompter.assert_unprivileged(row.context_ids)
    with pytest.raises(PrivilegedPrompt, match="holds a privileged hint"):
        toy.prompter.assert_unprivileged(row.views["hinted"])
    # A student may babble a hint by itself: its own words are not a leak.
    toy.prompter.assert_unprivileged(row.views["hinted"], [action_hint("left").strip()])


def test_two_recovery_turns_follow_the_action_that_was_said(toy, wasteful):
    rows, outcomes, _ = recover(toy, wasteful, ["<action>right</action>", "<action>left</action>"], depth=2)
    assert outcomes == {"rows": 2, "differed": 1, "followed": 1}
    came = [row.recovery for row in rows]
    assert [(r.after, r.named, r.played.action, r.result.text) for r in came if r] == [
        (1, "left", "right", "You are in cell 3."), (1, "left", "left", "You are in cell 2."),
    ]  # fmt: skip
    text = toy.prompter.chat.tokenizer.decode(rows[1].context_ids)
    assert "cell 3" in text  # the student's own step led there, not the named one
    assert [row.turn for row in rows] == [2, 3]


@pytest.mark.parametrize(
    ("response", "outcome"),
    [("left", "no_action_said"), ("<think>as suggested</think><action>left</action>", "leaked")],
)
def test_what_does_not_count(toy, wasteful, response, outcome):
    rows, outcomes, _ = recover(toy, wasteful, [response], depth=2)
    assert rows == []
    assert outcomes == {outcome: 1}


def test_a_mistake_in_the_last_turn_has_no_recorded_context_after_it(toy):
    trajectory = forced(toy, ["right", "right"], max_turns=2)
    rows, _, policy = recover(toy, trajectory, [])
    assert rows == []
    assert policy.asked == []


def make_learner(toy) -> Learner:
    optimizer = make_optimizer(1e-3, warmup_steps=1, max_grad_norm=1.0)
    return Learner(toy.graphdef, optimizer, make_mesh(), micro_batch_tokens=512)


def shaped(toy, trajectories, knobs, name="pivotopd", extra=()):
    method = make_method(name, knobs)
    learner = make_learner(toy)
    notes = annotate(teacher(toy), trajectories, method.annotation, seed=0)
    rows = [*rollout_rows(trajectories, notes, method, toy.prompter), *extra]
    batch, packed = batch_rows(rows, length=LENGTH)
    views = score_views(lambda p: learner.score(toy.params, p), rows, packed, method.views, length=LENGTH)
    batch = batch._replace(old_log_probs=views[PLAIN], reference_log_probs=views[PLAIN])
    return learner, batch._replace(advantages=np.asarray(method.shape(batch, views), np.float32)), rows, packed, views


def group(toy):
    """Two rollouts of one task, one of which fails."""
    return [forced(toy, ["right", "right", "left", "grab"]), forced(toy, ["right", "right", "right"], max_turns=3)]


def test_views_equal_separate_passes(toy):
    trajectories = group(toy)
    extra, _, _ = recover(toy, trajectories[0], ["<action>left</action>"])
    learner, _, rows, packed, views = shaped(toy, trajectories, KNOBS, extra=extra)
    for view in (PLAIN, "hinted"):
        for row, got in zip(rows, packed.gather(views[view]), strict=True):
            context = row.views.get(view, row.context_ids)
            alone = pack([Scored(0, context, row.response_ids)], length=LENGTH)
            (expected,) = alone.gather(learner.score(toy.params, alone))
            np.testing.assert_allclose(got, expected, atol=1e-5)


def test_all_weights_zero_is_grpo_to_the_bit(toy):
    knobs = ConfigDict({**KNOBS, "recovery_depth": 0, "preventive_weight": 0.0, "recovery_weight": 0.0})
    results = []
    for name in ("pivotopd", "grpo"):
        learner, batch, *_ = shaped(toy, group(toy), knobs, name)
        state, metrics = learner.update(learner.init(toy.params), batch)
        results.append((batch.advantages.tobytes(), metrics["loss"], metrics["grad_norm"]))
        del state
    assert results[0] == results[1]


def test_an_all_fail_group_still_learns_from_recoveries(toy):
    failed = [forced(toy, ["right", "right", "left"], max_turns=3) for _ in range(2)]
    extra, _, _ = recover(toy, failed[0], ["<action>left</action>"])
    learner, batch, *_ = shaped(toy, failed, ConfigDict({**KNOBS, "preventive_weight": 0.0}), extra=extra)
    assert not batch.reward_advantages.any()
    assert not batch.advantages[~batch.recovery].any()
    _, metrics = learner.update(learner.init(toy.params), batch)
    assert metrics["grad_norm"] > 1e-4


def test_rows_without_a_view_need_no_scoring_in_the_only_update(toy):
    trajectories = group(toy)
    learner, batch, rows, packed, views = shaped(toy, trajectories, KNOBS)
    few = score_views(lambda p: learner.score(toy.params, p), rows, packed, ("hinted",), length=LENGTH, every_row=False)
    difference = views["hinted"] - views[PLAIN]
    np.testing.assert_allclose(few["hinted"] - few[PLAIN], difference, atol=2e-5)
    assert np.count_nonzero(few[PLAIN]) < np.count_nonzero(views[PLAIN])
    assert batch.mask.sum() == np.count_nonzero(views[PLAIN])


def test_recovery_tokens_carry_the_clipped_advantage_and_nothing_else(toy):
    trajectories = group(toy)
    extra, _, _ = recover(toy, trajectories[0], ["<action>left</action>"])
    knobs = ConfigDict({**KNOBS, "recovery_clip": 0.01, "recovery_weight": 3.0})
    _, batch, _, _, views = shaped(toy, trajectories, knobs, extra=extra)
    difference = views["hinted"] - views[PLAIN]
    expected = 3.0 * np.clip(difference, -0.01, 0.01)
    np.testing.assert_allclose(batch.advantages[batch.recovery], expected[batch.recovery], rtol=1e-6)
    pivotal = batch.pivotal & ~batch.recovery
    np.testing.assert_allclose(
        batch.advantages[pivotal], (batch.reward_advantages + 0.5 * difference)[pivotal], rtol=1e-5
    )
    rest = batch.mask & ~batch.pivotal & ~batch.recovery
    np.testing.assert_array_equal(batch.advantages[rest], batch.reward_advantages[rest])


def test_the_reverse_kl_ablation_samples_from_the_student_and_clips_nothing(toy, wasteful):
    method = make_method("pivotopd", ConfigDict({**KNOBS, "recovery_mode": "reverse_kl", "recovery_clip": 0.01}))
    assert method.extension
    extra, _, policy = recover(toy, wasteful, ["<action>left</action>"], sampler=method.extension.sampler)
    np.testing.assert_array_equal(policy.asked[0].context_ids, extra[0].context_ids)
    knobs = ConfigDict({**KNOBS, "recovery_mode": "reverse_kl", "recovery_clip": 0.01, "recovery_weight": 3.0})
    _, batch, _, _, views = shaped(toy, group(toy), knobs, extra=extra)
    expected = 3.0 * (views["hinted"] - views[PLAIN])
    assert np.abs(expected[batch.recovery]).max() > 3 * 0.01
    np.testing.assert_allclose(batch.advantages[batch.recovery], expected[batch.recovery], rtol=1e-5)


def exact(toy, extra, **knobs):
    """A learner, the shaped batch and the full-vocabulary term of PivotOPD with an exact forward KL."""
    options = ConfigDict({**KNOBS, "recovery_mode": "exact_forward_kl", **knobs})
    learner, batch, rows, *_ = shaped(toy, group(toy), options, extra=extra)
    wanted = make_method("pivotopd", options).divergence
    assert wanted
    packed = divergence_batch(lambda p: learner.hidden(toy.params, p), rows, wanted, length=LENGTH)
    assert packed
    return learner, batch, rows, DivergenceTerm(packed, toy.graphdef, toy.params, wanted.function)


def dense_logits(toy, params, context, response):
    """Logits of a response `[response_length, vocabulary]` from a plain forward pass of one sequence."""
    ids = jnp.concatenate([context, response])[None]
    positions = jnp.arange(ids.shape[1])[None]
    hidden, _ = apply(toy.graphdef, params, ids, positions, jnp.tril(jnp.ones((ids.shape[1],) * 2, bool))[None])
    return compute_logits(toy.graphdef, params, hidden)[0, len(context) - 1 : -1]


def test_the_exact_forward_kl_equals_one_taken_sequence_by_sequence(toy):
    extra, _, _ = recover(toy, group(toy)[0], ["<action>left</action>"])
    learner, batch, rows, term = exact(toy, extra, recovery_weight=3.0, preventive_weight=0.0)
    assert not batch.advantages[batch.recovery].any()
    tokens = sum(len(row.response_ids) for row in rows)
    (row,) = extra
    teacher = jax.nn.log_softmax(dense_logits(toy, toy.params, row.views["hinted"], row.response_ids))

    @jax.jit
    def expected(params):
        student = jax.nn.log_softmax(dense_logits(toy, params, row.context_ids, row.response_ids))
        return 3.0 / tokens * jnp.sum(jnp.exp(teacher) * (teacher - student))

    nothing = batch._replace(advantages=np.zeros_like(batch.advantages))
    value, gradient = jax.value_and_grad(expected)(toy.params)
    assert value > 1e-4
    learner.options = UpdateOptions(kl_coefficient=0.0)
    _, metrics = learner.update(learner.init(toy.params), nothing, divergence=term)
    np.testing.assert_allclose(metrics["loss"], value, rtol=1e-3)
    np.testing.assert_allclose(metrics["grad_norm"], optax.tree.norm(gradient), rtol=1e-3)


def test_the_exact_forward_kl_is_nothing_where_the_hint_changes_nothing(toy):
    extra, _, _ = recover(toy, group(toy)[0], ["<action>left</action>"])
    same = [replace(row, views={"hinted": row.context_ids}) for row in extra]
    learner, batch, _, term = exact(toy, same)
    nothing = batch._replace(advantages=np.zeros_like(batch.advantages))
    _, metrics = learner.update(learner.init(toy.params), nothing, divergence=term)
    assert abs(metrics["loss"]) < 1e-6
    assert metrics["grad_norm"] < 1e-5


def test_no_recovery_rows_make_no_divergence(toy):
    rows = rollout_rows(group(toy), [], make_method("grpo", KNOBS), toy.prompter)
    wanted = make_method("pivotopd", ConfigDict({**KNOBS, "recovery_mode": "exact_forward_kl"})).divergence
    assert wanted
    assert len(divergence_batch(lambda p: p.tokens, rows, wanted, length=LENGTH).tokens) == 0


def test_an_unknown_recovery_mode_is_refused():
    with pytest.raises(ValueError, match="'nope'; choose one of clipped_advantage, exact_forward_kl, reverse_kl"):
        make_method("pivotopd", ConfigDict({**KNOBS, "recovery_mode": "nope"}))


def test_a_reflection_can_take_the_place_of_the_recovery_action(toy, wasteful):
    rows, _, _ = recover(toy, wasteful, ["<action>left</action>"], hint="reflection")
    expected = toy.prompter.context(wasteful.turns[:2], wasteful.turns[2].observation, REFLECTION)
    np.testing.assert_array_equal(rows[0].views["hinted"], expected)


def test_dapo_drops_groups_that_all_score_the_same(toy):
    won, lost = group(toy)
    again = replace(lost, group=1)
    kept = {}
    for name in ("dapo", "grpo"):
        rows = rollout_rows([won, lost, again, again], [], make_method(name, KNOBS), toy.prompter)
        kept[name] = {row.trajectory for row in rows}
    assert kept == {"dapo": {0, 1}, "grpo": {0, 1, 2, 3}}


def test_gigpo_compares_turns_that_started_alike(toy):
    won, lost = group(toy)  # won in 4 turns: cells 0 1 2 1; lost in 3: cells 0 1 2
    plain = [row.reward_advantage for row in rollout_rows([won, lost], [], make_method("grpo", KNOBS), toy.prompter)]
    both = [row.reward_advantage for row in rollout_rows([won, lost], [], make_method("gigpo", KNOBS), toy.prompter)]
    # Returns γ^(turns to come) with γ = 1/2 by cell: 0: 1/8, 0. 1: 1/4, 1 (came back), 0. 2: 1/2, 0.
    cells = {0: [1 / 8, 0], 1: [1 / 4, 1, 0], 2: [1 / 2, 0]}
    score = {c: [(v - np.mean(r)) / (np.std(r, ddof=1) + 1e-6) for v in r] for c, r in cells.items()}
    expected = [score[0][0], score[1][0], score[2][0], score[1][1], score[0][1], score[1][2], score[2][1]]
    np.testing.assert_allclose(np.subtract(both, plain), 0.5 * np.asarray(expected), rtol=1e-4)


@pytest.mark.parametrize(
    ("aggregation", "share"),
    [("token_mean", [1 / 5, 1 / 5]), ("sequence_mean", [1 / 4, 1 / 6]), ("constant", [1 / 20, 1 / 20])],
)
def test_what_a_token_counts_for(aggregation, share):
    ids = np.arange(1, 9, dtype=np.int32)
    rows = [Row("rollout", i, 0, 0, ids, ids[:size]) for i, size in enumerate((2, 3))]
    batch, packed = batch_rows(rows, length=32, aggregation=aggregation, constant=10)
    for weights, expected in zip(packed.gather(batch.weights), share, strict=True):
        np.testing.assert_allclose(weights, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="aggregation is 'nope'; expected \"token_mean\""):
        batch_rows(rows, length=32, aggregation="nope")  # type: ignore[arg-type]


def test_recovery_rows_enter_no_group_statistic(toy):
    trajectories = group(toy)
    extra, _, _ = recover(toy, trajectories[0], ["<action>left</action>"])
    _, without, _, packed_without, _ = shaped(toy, trajectories, KNOBS)
    _, with_, rows, packed_with, _ = shaped(toy, trajectories, KNOBS, extra=extra)
    own = packed_with.gather(with_.reward_advantages)
    for before, after in zip(packed_without.gather(without.reward_advantages), own, strict=False):
        np.testing.assert_array_equal(before, after)
    assert not own[-1].any()
    assert len(rows) == len(own)


@pytest.mark.parametrize("change", ["row length", "micro-batch", "order"])
def test_layout_changes_neither_loss_nor_gradient(toy, change):
    trajectories = group(toy)
    extra, _, _ = recover(toy, trajectories[0], ["<action>left</action>"])
    learner, _, rows, *_ = shaped(toy, trajectories, KNOBS, extra=extra)
    method = make_method("pivotopd", KNOBS)

    def update(rows, length, micro):
        learner.micro_batch_tokens = micro
        batch, packed = batch_rows(rows, length=length)
        views = score_views(lambda p: learner.score(toy.params, p), rows, packed, method.views, length=length)
        batch = batch._replace(old_log_probs=views[PLAIN], reference_log_probs=views[PLAIN])
        batch = batch._replace(advantages=np.asarray(method.shape(batch, views), np.float32))
        return learner.update(learner.init(toy.params), batch)[1]

    expected = update(rows, LENGTH, 4 * LENGTH)
    changed = {
        "row length": lambda: update(rows, 2 * LENGTH, 4 * LENGTH),
        "micro-batch": lambda: update(rows, 128 if toy.prompter.style == "windowed" else LENGTH, LENGTH),
        "order": lambda: update(rows[::-1], LENGTH, 4 * LENGTH),
    }[change]()
    for name in ("loss", "grad_norm", "kl_reference"):
        np.testing.assert_allclose(changed[name], expected[name], rtol=2e-5, atol=1e-7)
