"""The whole loop at the smallest size: it runs, it resumes exactly, and it refuses what it cannot do."""

from __future__ import annotations

import importlib.util
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pivotopd_jax.evaluation.cells import MISTAKES_FILE, Judging, run_cells
from pivotopd_jax.evaluation.checkpointed import evaluate_checkpoint, evaluation_table
from pivotopd_jax.evaluation.compare import comparison_table, draw_comparison, draw_curves
from pivotopd_jax.evaluation.diagnosis import PARTS, Case, diagnose
from pivotopd_jax.evaluation.evaluate import panel
from pivotopd_jax.evaluation.grids import Grid, methods, teacher_errors
from pivotopd_jax.evaluation.mistakes import Mistake, mistake_record
from pivotopd_jax.evaluation.pivotal import first_pivotal
from pivotopd_jax.evaluation.study import draw_study, judged, leads_table, study, study_table
from pivotopd_jax.files import write_json
from pivotopd_jax.learner.checkpoints import Checkpoints, ConfigurationChanged
from pivotopd_jax.methods import METHODS, make_method
from pivotopd_jax.models.qwen3 import apply, compute_logits
from pivotopd_jax.prompts.actions import format_action
from pivotopd_jax.prompts.hints import action_hint
from pivotopd_jax.recording import read_metrics
from pivotopd_jax.records import Row, Trajectory
from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.run import TeacherModel, make_run
from pivotopd_jax.scoring import teacher_divergence
from pivotopd_jax.summary import summarise_run
from pivotopd_jax.train import evaluate_run, train, train_step
from pivotopd_jax.viewing.log import TrajectoryLog

PROJECT = Path(__file__).resolve().parents[1]


def load_config(preset: str, world: str = "alfworld") -> Any:
    spec = importlib.util.spec_from_file_location(f"{world}_config", PROJECT / "configs" / f"{world}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(preset)


def tiny_config(method: str = "pivotopd", steps: int = 2) -> Any:
    return shrink(load_config("mini"), method, steps)


def shrink(c: Any, method: str, steps: int) -> Any:
    """A mini configuration at the smallest size."""
    c.method, c.steps, c.tasks_per_step, c.rollouts, c.max_turns = method, steps, 2, 2, 5
    c.sampler.slots = 8
    c.ppo.mini_batch = 4
    c.offline.tasks, c.knobs.pivot_rollouts = 3, 2
    c.evaluate.tasks = c.evaluate.final_tasks = 4
    c.evaluate.mistakes, c.evaluate.continuations = 3, 2
    c.evaluate.every, c.checkpoint.every = 2, 1
    c.mini.update({"games": 24, "hidden_size": 16, "intermediate_size": 32, "num_layers": 1, "num_heads": 2,
                   "num_kv_heads": 1, "head_dim": 8})  # fmt: skip
    return c


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of one module share the student that the first of them makes."""
    return tmp_path_factory.mktemp("runs")


def same(left: Any, right: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True))


def odd(planner: Any, played: Any, pivot: Any) -> bool:
    """Stands in for `equivalent`: a student of a few seconds gets nothing right, so that nothing would vary."""
    return int(played.turns[pivot.turn].response_ids[0]) % 2 == 1


def of_training(directory: Path) -> list[dict[str, float]]:
    """Metrics without what the process costs, and without evaluations: the last step of any run is evaluated."""
    skipped = ("seconds/", "compile/", "eval/")
    return [{k: v for k, v in line.items() if not k.startswith(skipped)} for line in read_metrics(directory)]


def test_an_interrupted_run_goes_on_where_it_stopped(place):
    _, straight = train(tiny_config(), place / "straight")
    _, half = train(tiny_config(steps=1), place / "halves")
    (place / "halves" / "metrics.jsonl").open("a").write('{"step": 1, "train/succ')  # a line cut short by the crash
    _, resumed = train(tiny_config(), place / "halves")
    assert not same(half.params, resumed.params)
    assert same(straight, resumed)
    assert of_training(place / "straight") == of_training(place / "halves")
    log = TrajectoryLog(place / "straight")
    assert {name: len(file.entries) for name, file in log.files.items()} == {"step_000000": 4, "validation_000002": 4}
    for turn in log.read("step_000000", 1)["turns"]:
        assert len(turn["tokens"]) == len(turn["log_probs"]) == len(turn["advantages"])
    assert json.loads((place / "halves" / "configuration.json").read_text())["ppo"]["learning_rate"] == 1e-4


@pytest.mark.parametrize("base_dtype", ["", "int8"])
def test_a_run_with_adapters_trains_them_alone_and_exports_the_whole(place, base_dtype):
    """Interrupted and straight runs agree; student, reference, sampler and self-teacher share one frozen base."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")

    def config(steps: int) -> Any:
        c = tiny_config("opsd", steps)
        c.knobs.privileged = "gold_action"
        c.lora.update({"rank": 2, "targets": ("q_proj", "down_proj"), "base_dtype": base_dtype})
        return c

    name = f"lora{base_dtype}"
    train(config(1), place / f"{name}-halves")
    _, resumed = train(config(2), place / f"{name}-halves")
    run, straight = train(config(2), place / f"{name}-straight")
    assert same(straight, resumed)
    assert not same(straight.params, run.reference)
    assert {x.shape for x in jax.tree.leaves(straight.params)} == {(16, 2), (2, 16), (32, 2)}
    moments = [x for x in jax.tree.leaves(straight.opt_state) if x.ndim]
    assert len(moments) == 2 * len(jax.tree.leaves(straight.params))
    # The frozen part is one set of buffers, and after two steps bit by bit what the student's directory gives.
    addresses = [x.unsafe_buffer_pointer() for x in jax.tree.leaves(run.learner.base)]
    for user in (run.policy.params, run.learner.whole(run.reference), run.learner.whole(straight.params)):
        assert set(addresses) <= {x.unsafe_buffer_pointer() for x in jax.tree.leaves(user)}
    assert same(run.learner.base, make_run(config(2), place / f"{name}-straight").learner.base)
    run.export(straight.params, place / f"{name}-student")
    tokens = np.arange(24, dtype=np.int32).reshape(2, 12)
    mask = np.broadcast_to(np.tril(np.ones((12, 12), bool)), (2, 12, 12))
    graphdef, whole = run.learner.graphdef, run.learner.whole(straight.params)
    positions = jnp.broadcast_to(jnp.arange(12), (2, 12))
    hidden, _ = apply(graphdef, whole, jnp.asarray(tokens), positions, jnp.asarray(mask))
    model = transformers.AutoModelForCausalLM.from_pretrained(place / f"{name}-student").eval()
    with torch.no_grad():
        expected = model(torch.tensor(tokens, dtype=torch.int64)).logits.numpy()
    np.testing.assert_allclose(compute_logits(graphdef, whole, hidden), expected, atol=2e-5)
    assert (place / f"{name}-student" / "adapters" / "adapter_model.safetensors").is_file()


def test_another_configuration_is_refused(place):
    train(tiny_config(steps=1), place / "changed")
    config = tiny_config()
    config.ppo.learning_rate = 0.5
    with pytest.raises(ConfigurationChanged, match=r"learning_rate.*0\.5.*choose another --workdir"):
        train(config, place / "changed")


def test_what_is_written_down_may_differ_on_resuming(place):
    train(tiny_config(steps=1), place / "quieter")
    config = tiny_config()
    config.log.update({"trajectories_every": 1, "tokens": False, "prompts": False, "trackers": ""})
    train(config, place / "quieter")
    (turn, *_) = TrajectoryLog(place / "quieter").read("step_000001", 1)["turns"]
    assert not turn.keys() & {"tokens", "advantages", "prompt"}


def test_a_run_goes_on_with_its_own_method_only(place):
    config = tiny_config("grpo")
    other = replace(make_method("grpo", config.knobs), name="mine")
    train(tiny_config("grpo", steps=1), place / "mine", method=other)
    with pytest.raises(ConfigurationChanged, match="method: 'mine' → 'grpo'"):
        train(config, place / "mine")


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_runs_through_the_same_loop(place, monkeypatch, method):
    monkeypatch.setattr("pivotopd_jax.rollout.pivots.equivalent", odd)
    config = tiny_config(method, steps=1)
    config.ppo.mini_batch = 2  # two updates a step: old log-probs are scored
    run, state = train(config, place / method)
    assert run.method.name == method
    # A tiny student fails everywhere, and DAPO drops groups that do.
    assert int(state.step) == (0 if method == "dapo" else 2)
    if method != "dapo":
        assert np.isfinite(read_metrics(place / method)[-1]["update/loss"])


@pytest.mark.parametrize("method", ["opsd", "sdar", "skill_sd", "skill_grpo"])
def test_methods_with_skills_distil_a_bank_from_the_students_own_rollouts(place, method):
    config = tiny_config(method, steps=1)
    config.knobs.privileged = "skills"
    directory = place / f"skills-{method}"
    _, state = train(config, directory)
    assert int(state.step) == 1
    entries = json.loads((directory / "skills.json").read_text())
    assert 1 <= len(entries) <= 3
    assert all("take " in entry["text"] for entry in entries)
    if method in ("sdar", "skill_sd"):
        assert read_metrics(directory)[-1]["update/penalty"] != 0
    # What was made before the first step belongs to its configuration, checkpoint or none.
    shutil.rmtree(directory / "checkpoints")
    config.offline.tasks = 2
    with pytest.raises(ConfigurationChanged, match=r"made in this workdir with another.*offline\.tasks: 3 → 2"):
        train(config, directory)
    # A bank that is given is read, not made.
    config.offline.skill_bank = str(directory / "nowhere.json")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json"):
        train(config, place / f"given-{method}")


@pytest.mark.parametrize("method", ["turnopd", "dagger", "pivotrl"])
def test_what_a_step_hands_to_the_next_survives_a_crash(place, monkeypatch, method):
    """The run dies after its third step and before that is saved: what the step left behind must not count twice."""
    config = tiny_config(method, steps=3)
    monkeypatch.setattr("pivotopd_jax.rollout.pivots.equivalent", odd)

    def dying(run, progress, step, recorder):
        found = train_step(run, progress, step, recorder)
        if step == 2:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patched:
        patched.setattr("pivotopd_jax.train.train_step", dying)
        with pytest.raises(KeyboardInterrupt):
            train(config, place / f"{method}-crashed")
    _, resumed = train(config, place / f"{method}-crashed")
    _, straight = train(config, place / f"{method}-straight")
    assert same(straight, resumed)
    first, *_, last = of_training(place / f"{method}-straight")
    assert of_training(place / f"{method}-crashed")[-1] == last
    if method == "turnopd":
        assert 2 <= last["train/depth"] <= 5
    if method == "dagger":
        assert last["train/tokens"] > 1.5 * first["train/tokens"], "labels of earlier steps are trained on, too"
        assert int(straight.step) == 3, "they make no updates of their own"


def test_the_distance_to_the_teacher_is_measured_over_training(place):
    config = tiny_config("sft", steps=1)
    config.evaluate.teacher_divergence = True
    run, state = train(config, place / "divergence")
    assert read_metrics(place / "divergence")[-1]["eval/teacher_divergence"] > 0
    trajectories = evaluate_run(run, state.params, run.world.tasks("test")[:2], 1.0).trajectories
    same_model = replace(run, teacher_model=TeacherModel(run.learner, state.params))
    assert teacher_divergence(same_model, state.params, trajectories) == pytest.approx(0, abs=1e-6)


def recovered(policy, teacher, world, prompter, trajectories, notes, extension, **_: Any) -> tuple[list[Row], dict]:
    """Stands in for `extend`: a student of a few seconds says no action, hinted or not, so its words are put there."""
    ids = prompter.chat.encode(format_action("look") + prompter.chat.template.end)
    hint = action_hint("look")
    rows = [
        Row("recovery", i, t.group, 1, t.turns[1].context_ids, ids,
            {"hinted": prompter.context(t.turns[:1], t.turns[1].observation, hint)})
        for i, t in enumerate(trajectories)
    ]  # fmt: skip
    return rows, {"rows": len(rows)}


@pytest.mark.parametrize("mini_batch", [2, 4])
def test_every_recovery_mode_moves_the_student_its_own_way(place, monkeypatch, mini_batch):
    monkeypatch.setattr("pivotopd_jax.train.extend", recovered)
    moved = {}
    for mode in ("clipped_advantage", "exact_forward_kl", "reverse_kl"):
        config = tiny_config("recovery_only", steps=1)
        config.knobs.update({"recovery_mode": mode, "recovery_clip": 1e-3})
        config.ppo.mini_batch = mini_batch
        directory = place / f"{mode}-{mini_batch}"
        _, moved[mode] = train(config, directory)
        metrics = read_metrics(directory)[-1]
        assert metrics["recovery/rows"] == 4
        assert np.isfinite(metrics["update/loss"])
    assert not same(moved["clipped_advantage"].params, moved["exact_forward_kl"].params)
    assert not same(moved["clipped_advantage"].params, moved["reverse_kl"].params)


def test_the_summary_and_the_evaluation_of_checkpoints(place, capsys):
    config = tiny_config()
    run, state = train(config, place / "straight")
    summary = summarise_run(run, state.params, place / "straight")
    assert json.loads((place / "straight" / "summary.json").read_text())["method"] == "pivotopd"
    assert {"collect", "annotate", "extend", "score", "update"} <= summary["seconds"].keys()
    assert (place / "straight" / "curve.png").stat().st_size > 1000
    assert summary["compile"].keys() == {"programs", "cached", "seconds"}
    assert "seconds: collect" in capsys.readouterr().out
    closing = [f for f in TrajectoryLog(place / "straight").files.values() if f.occasion == "closing"]
    assert [(file.step, len(file.entries)) for file in closing] == [(0, 4), (2, 4)]
    assert "<h2>Before and after</h2>" in (place / "straight" / "report.html").read_text()
    for checkpoint, steps in (("base", 0), ("last", 2), ("best", 2)):
        result = evaluate_checkpoint(config, place / "straight", checkpoint, 0.4, range(2), 4)
        assert (result["steps"], result["games"], result["plays"]) == (steps, 4, 2)
        assert "mean of kinds" in evaluation_table(result)
    with pytest.raises(FileNotFoundError, match="holds no checkpoint"):
        evaluate_checkpoint(config, place / "nowhere", "last", 0.4, range(1), 4)


def test_a_comparison_keeps_its_finished_cells(place):
    reports: list[str] = []
    arms = methods(["pivotopd", "grpo"])
    arguments = (tiny_config(steps=1), arms, [0], place, Judging((0.4,), 1), reports.append)
    cells = run_cells(*arguments)
    assert list(cells) == ["base", "pivotopd-0", "grpo-0"]
    assert len(reports) == 3
    assert run_cells(*arguments) == cells
    assert len(reports) == 3
    # One cell lost: the others stay, and it is judged on the same mistakes, which were written down.
    (place / "grpo-0" / "cell.json").unlink()
    assert run_cells(*arguments) == cells
    assert reports[3:] == ["cell grpo-0"]
    # Judged otherwise, all are judged again, and none is trained again.
    twice = run_cells(*arguments[:4], Judging((0.4,), 2), reports.append)
    assert reports[4:] == ["cell base", "cell pivotopd-0", "cell grpo-0"]
    assert [len(cell["success"]["0.4"]) for cell in twice.values()] == [2, 2, 2]
    assert [cell.get("seconds") for cell in twice.values()] == [cell.get("seconds") for cell in cells.values()]
    other = tiny_config(steps=1)
    other.ppo.learning_rate = 0.5
    with pytest.raises(ConfigurationChanged, match=r"ppo\.learning_rate: 0\.0001 → 0\.5\); choose another --workdir"):
        run_cells(other, *arguments[1:])
    table = comparison_table(cells, ["pivotopd", "grpo"])
    assert "**pivotopd − grpo**, paired" in table
    assert cells["grpo-0"]["tokens"] > 0
    draw_comparison(cells, ["pivotopd", "grpo"], place / "comparison.png")
    assert (place / "comparison.png").stat().st_size > 1000


def test_a_sweep_changes_what_its_arms_say(place):
    config = tiny_config(steps=1)
    grid = teacher_errors(config)
    assert [arm.changes["teacher.error_rate"] for arm in grid.arms] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    grid = Grid((grid.arms[0], grid.arms[-1]), grid.axis)
    cells = run_cells(config, grid.arms, [0], place / "sweep", Judging((0.4,), 1), lambda line: None)
    assert list(cells) == ["base", "error_0-0", "error_0.6-0"]
    assert Checkpoints(place / "sweep" / "error_0.6-0", keep=2).record(1).configuration["teacher"]["error_rate"] == 0.6
    assert config.teacher.error_rate == 0
    draw_curves(cells, grid.arms, grid.axis, place / "sweep.png")
    assert (place / "sweep.png").stat().st_size > 1000
    config.teacher.kind = "served"
    with pytest.raises(ValueError, match=r"pass --config\.teacher=symbolic"):
        teacher_errors(config)


def blunders(run: Any) -> list[Trajectory]:
    """Two turns of the oracle and then whatever leads away furthest, by force."""

    def actor(index: int, episode: Any) -> str:
        planner, env = run.world.planner, run.world.make()

        def left(action: str) -> float:
            env.restore(episode.snapshot)
            env.step(action)
            return planner.distance(env.snapshot())

        best = planner.next_action(episode.snapshot)
        return best if len(episode.turns) < 2 else max(planner.candidates(episode.snapshot), key=left)

    tasks = panel(run.world, run.config.world.eval_splits, run.config.evaluate.final_tasks)
    starts = fresh_starts(run.world, run.prompter, tasks, rollouts=1, max_turns=run.config.max_turns)
    played = play(None, starts, temperature=1.0, seed=0, concurrency=1, actor=actor)
    assert {first_pivotal(run.world.planner, trajectory) for trajectory in played} == {2}
    return played


def test_a_study_measures_each_policy_once(place):
    config = tiny_config()
    train(config, place / "straight")
    config.evaluate.mistakes = 4
    run = make_run(config, place / "study")
    made = [Mistake(t, 2, int(run.world.planner.distance(t.snapshot_after(2)))) for t in blunders(run)]
    write_json(place / "study" / MISTAKES_FILE, [mistake_record(mistake) for mistake in made])
    reports: list[str] = []

    def measured() -> Any:
        return study(run, {"straight": [place / "straight"]}, "last", place / "study", reports.append)

    found = measured()
    assert reports == ["base: 4 mistakes × 2", "straight after 2 steps: 4 mistakes × 2"]
    np.testing.assert_equal({n: vars(p) for n, p in measured().items()}, {n: vars(p) for n, p in found.items()})
    assert len(reports) == 2
    # A policy is compared with itself: measured again, it does the same.
    (place / "study" / "base.json").unlink()
    again = measured()["base"]
    assert reports[2:] == ["base: 4 mistakes × 2"]
    itself = judged(again, found["base"])
    assert (itself.better, itself.worse, itself.same) == (0, 0, 4)
    np.testing.assert_array_equal(again.divergence[0], found["base"].divergence[0])
    assert again.divergence[0].shape == (1, 4)
    assert np.isnan(found["base"].divergence[3]).all()  # episodes have five turns
    assert not np.isnan(found["straight"].divergence[2]).any()
    assert found["base"].left.tolist() == [mistake.left for mistake in made]
    run.config.evaluate.continuations = 1
    assert measured()["straight"].won.shape == (1, 4, 1)
    assert len(reports) == 5
    rows = {name: judged(policy, found["base"]) for name, policy in found.items()}
    assert "| straight | 0/8 |" in study_table(rows)
    assert leads_table(found) == ""
    better = replace(found["base"], won=np.asarray([[[True, True], [True, False], [False, False], [False, False]]]))
    assert leads_table({"base": again, "a": better, "b": again}).endswith("| a − b | 2 / 0 / 2 | +37.5 [0.0, 75.0] |")
    draw_study(rows, place / "study.png")
    assert (place / "study.png").stat().st_size > 1000
    run.config.evaluate.mistakes = 3
    with pytest.raises(ValueError, match=r"holds 4 mistakes, and config\.evaluate\.mistakes is 3; choose another"):
        measured()
    run.config.max_turns = 6
    with pytest.raises(ConfigurationChanged, match=r"in another world than --config says \(max_turns: 5"):
        measured()


@pytest.mark.parametrize("world", ["alfworld", "webshop", "search_qa"])
def test_a_diagnosis_of_every_part(place, world):
    run = make_run(shrink(load_config("mini", world), "pivotopd", 1), place / world)
    run.load(run.reference)
    trajectories = blunders(run)
    text, record = diagnose(Case(run, run.reference, trajectories, [run.teacher], 0.4), PARTS)
    assert record.keys() == PARTS.keys()
    assert record["pivots"]["in_failures"]["value"] == 1
    assert record["pivots"]["first_turn"]["value"] == 3
    assert 0 < record["likelihoods"]["taken"]["value"] < 1
    assert len(record["replays"]) == 6
    json.dumps(record)
    assert "oracle at the pivotal turn | " in text
    text, record = diagnose(Case(run, run.reference, [], [run.teacher], 0.4), ["agreement", "replays"])
    assert record == {"agreement": None, "replays": None}
    assert "replays: no failure holds an oracle-pivotal turn" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "nope"}, "method 'nope' is not known; choose one of sft, dagger"),
        ({"method": "opd", "teacher.model": ""}, "scores tokens with an external teacher; set config.teacher.model"),
        ({"world.name": "nope"}, "world 'nope' is not known"),
        ({"prompt.style": "nope"}, "expected 'windowed' or 'transcript'"),
        ({"knobs.recovery_mode": "nope"}, "recovery_mode is 'nope'; choose one of clipped_advantage"),
        ({"method": "opid", "teacher.kind": "self"}, "needs lessons in words, which a student that teaches by votes"),
        ({"method": "skill_grpo", "teacher.kind": "self"}, r"config\.offline\.skill_bank \(methods with skills\)"),
        ({"method": "gkd", "knobs.beta": 1.5}, "knobs.beta is 1.5; expected 0 to 1"),
        ({"knobs.skills": 0}, "knobs.skills is 0; expected 1 to inf"),
        ({"knobs.normalization": "std"}, "normalization is 'std'; expected 'mean' or 'mean_std'"),
        ({"method": "skill_grpo", "offline.tasks": 0}, r"offline\.tasks is 0 and config\.offline\.skills 47"),
        ({"method": "opsd", "knobs.privileged": "nope"}, "expected 'skills' or 'gold_action'"),
        ({"teacher.kind": "nope"}, "expected 'symbolic', 'self' or 'served'"),
        ({"learner.max_skipped": 0}, r"learner\.max_skipped is 0; expected at least 1"),
        ({"steps": 25}, "0 at optimizer step 24, but the run takes 25; set config.ppo.decay_until=25, or 0"),
        ({"lora.base_dtype": "int8"}, r"without adapters, and what is trained cannot be quantised; set config\.lora"),
        ({"lora.rank": 8}, "expected a rank below both dimensions of every adapted matrix"),
        ({"learner.fsdp": 64}, "a mesh of 64 × 1 × 1 devices was asked for"),
        ({"log.trackers": "tensorboard, nope"}, "trackers is 'tensorboard, nope'; expected 'tensorboard', 'wandb'"),
        ({"student": "/no/such/directory"}, "no/such/directory"),
        ({"world.source": "/no/such/games"}, "no/such/games"),
    ],
)
def test_what_cannot_be_used_is_named(place, change, message):
    config = tiny_config()
    config.update_from_flattened_dict(change)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        train(config, place / "refused")


def test_presets():
    paper, mini, real = (load_config(preset) for preset in ("paper", "mini", "mini_real"))
    assert (paper.steps, paper.tasks_per_step, paper.rollouts, paper.knobs.recovery_depth) == (160, 16, 8, 2)
    assert (paper.knobs.recovery_limit, paper.knobs.recovery_clip, paper.ppo.learning_rate) == (64, 5.0, 1e-6)
    assert set(paper) - {"mini"} == set(mini) - {"mini"}
    assert real.world.eval_splits == ("valid_seen", "valid_unseen")
    with pytest.raises(ValueError, match="no preset 'nope'; choose one of paper, mini, mini_real, small"):
        load_config("nope")
