"""What is measured beside peers is the same work, and a peer that is not there is named. How fast, no test asks."""

from __future__ import annotations

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pivotopd_jax.evaluation import bench_ours, bench_peers, peer_cases
from pivotopd_jax.evaluation.bench_peers import Peer, compared, run_peer
from pivotopd_jax.evaluation.peer_cases import Size, make_case
from pivotopd_jax.evaluation.peer_data import PAD, transcript_arrays
from pivotopd_jax.evaluation.peers import measuring
from pivotopd_jax.losses.divergences import reverse_kl
from pivotopd_jax.models import huggingface
from pivotopd_jax.models.qwen3 import apply, compute_logits
from pivotopd_jax.records import Row

TINY = Size(
    320, 16, 32, 1, 2, 1, 8, prompts=3, shortest=5, longest=20, new_tokens=4, turns=3, turn_tokens=2, shown=(2, 6),
    tasks=1, rollouts=2, max_turns=3, micro_rows=(1, 2), micro_batch_tokens=512,
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("case")
    return make_case(TINY, directory, data=None, rounds=1, threads=1), directory


def test_a_case_is_on_disk_what_it_is_in_memory(made):
    case, directory = made
    _, settings = measuring.read_case(str(directory))
    assert settings == json.loads(json.dumps(case.settings))
    prompts = measuring.read_arrays(directory / "prompts.npz")
    assert all(np.array_equal(prompts[name], value) for name, value in case.prompts.items())
    config, _, params, _ = huggingface.load(directory / "teacher")
    assert config == case.config
    saved, student, teacher = (np.asarray(p["embed_tokens"][...]) for p in (params, case.student, case.teacher))
    np.testing.assert_array_equal(saved, teacher)
    assert not np.array_equal(saved, student)


def test_transcripts_hold_the_rows():
    ids = np.arange(10, 30, dtype=np.int32)
    rows = [
        Row("rollout", 0, 0, 0, ids[:4], ids[4:6], reward_advantage=1.5),
        Row("rollout", 0, 0, 1, ids[:9], ids[9:12], reward_advantage=1.5),
        Row("rollout", 1, 0, 0, ids[:3], ids[3:4], reward_advantage=-2.0),
    ]
    found = transcript_arrays(rows)
    assert found["prompts"].tolist() == [[10, 11, 12, 13], [PAD, 10, 11, 12]]
    assert found["prompt_mask"].tolist() == [[True] * 4, [False, True, True, True]]
    assert found["completions"].tolist() == [list(range(14, 22)), [13] + 7 * [PAD]]
    assert found["trained"].astype(int).tolist() == [[1, 1, 0, 0, 0, 1, 1, 1], [1] + 7 * [0]]
    assert found["advantages"].tolist() == [1.5, -2.0]


def test_rows_and_transcripts_train_the_same_tokens(made):
    case, directory = made
    arrays = measuring.read_arrays(directory / "rows.npz")
    said = np.concatenate([row.response_ids for row in case.rows])
    np.testing.assert_array_equal(arrays["completions"][arrays["trained"]], said)
    for name in ("prompt", "completion"):
        # Some peers find out by the id what is padding.
        np.testing.assert_array_equal(arrays[f"{name}s"] != case.settings["pad"], arrays[f"{name}_mask"])


def test_our_sampler_answers_without_an_early_end(made):
    case, _ = made
    found = bench_ours.sampling(case)
    assert all(found[name]["seconds"] > 0 for name in ("single_turn", "multi_turn"))
    answers, asked = bench_ours.Answers(case, case.settings["sampling"]["capacity"], TINY.turn_tokens), []

    def noted(prompts, new_tokens):
        asked.append([len(prompt) for prompt in prompts])
        found = answers(prompts, new_tokens)
        assert [len(answer) for answer in found] == [TINY.turn_tokens] * TINY.prompts
        return found

    measuring.multi_turn(noted, case.prompts, TINY.turn_tokens)
    grown = TINY.turn_tokens + case.prompts["observation_lengths"]
    expected = case.prompts["lengths"] + np.cumsum([0 * grown[0], *grown], axis=0)
    assert asked == expected.tolist()


def test_our_steps_minimise_what_the_peers_do(made):
    case, directory = made
    arrays = measuring.read_arrays(directory / "rows.npz")
    step = bench_ours.Step(case)
    step.grpo()
    # Old log-probs are the policy's own: every ratio is 1, and the loss is minus the mean advantage of a token.
    weights = arrays["trained"].sum(axis=1)
    assert step.metrics["loss"] == pytest.approx(-np.average(arrays["advantages"], weights=weights), rel=1e-4)

    step = bench_ours.Step(case)
    step.distillation()
    assert step.metrics["loss"] == pytest.approx(mean_reverse_kl(case, arrays), rel=1e-4)


def mean_reverse_kl(case, arrays):
    """Of the trained tokens, from whole transcripts one by one."""
    longest = arrays["prompts"].shape[1] + arrays["completions"].shape[1]

    @jax.jit
    def divergence(ids):
        mask, positions = jnp.tril(jnp.ones((longest, longest), bool))[None], jnp.arange(longest)[None]
        hidden = [apply(case.graphdef, p, ids[None], positions, mask)[0] for p in (case.teacher, case.student)]
        logits = [
            compute_logits(case.graphdef, p, h) for p, h in zip((case.teacher, case.student), hidden, strict=True)
        ]
        return reverse_kl(*logits)[0]

    values = []
    for row in range(len(arrays["prompts"])):
        prompt = arrays["prompts"][row][arrays["prompt_mask"][row]]
        completion = arrays["completions"][row][arrays["completion_mask"][row]]
        ids = np.concatenate([prompt, completion])
        found = np.asarray(divergence(np.pad(ids, (0, longest - len(ids)))))
        values.append(found[np.flatnonzero(arrays["trained"][row]) + len(prompt) - 1])
    return np.concatenate(values).mean()


def test_a_peer_that_is_not_installed_is_named_with_the_remedy(tmp_path):
    found = run_peer(Peer("tunix", "tunix_sampling.py"), tmp_path, tmp_path / "venvs", 1)
    assert found["tunix"]["missing"].endswith(f"install it with: bash launch/peers.sh tunix {tmp_path / 'venvs'}")


def test_a_peer_runs_in_its_own_environment_and_its_failures_are_told(tmp_path, monkeypatch):
    python = tmp_path / "venvs" / "tunix" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    monkeypatch.setattr(bench_peers, "SCRIPTS", tmp_path)
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    (tmp_path / "peer.py").write_text(
        "import json, os, sys\nprint('noise')\nenv = os.environ\n"
        "print(json.dumps({'tunix': [env.get('PYTHONPATH'), env['OMP_NUM_THREADS'], sys.argv[1:]], 'versions': {}}))"
    )
    found = run_peer(Peer("tunix", "peer.py", ("grpo",)), tmp_path / "case", tmp_path / "venvs", 3)
    assert found == {"tunix": [None, "3", [str(tmp_path / "case"), "grpo"]], "versions": {}}
    (tmp_path / "peer.py").write_text("raise ValueError('no such thing')")
    found = run_peer(Peer("tunix", "peer.py"), tmp_path / "case", tmp_path / "venvs", 1)
    assert "no such thing" in found["tunix"]["failed"]


def test_ours_is_compared_with_those_that_were_measured():
    found = {
        "ours": {"seconds": 2.0, "processor_seconds": 1.0},
        "tunix": {"seconds": 5.0, "processor_seconds": 4.0},
        "trl": {"missing": "no trl"},
    }
    assert compared(found, 1.5) == {
        "times_as_fast": {"tunix": 2.5}, "times_as_fast_by_processor_time": {"tunix": 4.0}, "goal": 1.5,
    }  # fmt: skip


def test_all_measurements_of_a_size_without_peers(tmp_path, monkeypatch):
    monkeypatch.setitem(peer_cases.SIZES, "tiny", TINY)
    monkeypatch.setattr(bench_peers, "rollout", lambda config, workdir, rounds: {"rounds": rounds})
    lines = []
    found = bench_peers.bench_peers(
        None, tmp_path, tmp_path / "venvs", data=None, rounds=1, threads=1, sizes=["tiny"], report=lines.append
    )
    assert found["rollout"] == {"rounds": 1}
    tiny = found["tiny"]
    for name in ("sampling", "grpo", "distillation"):
        assert "missing" in tiny[name]["trl"]
        assert tiny[name]["ours"]
    assert tiny["sampling"]["ours"]["multi_turn"]["tokens_per_second"] > 0
    assert tiny["transcripts"]["count"] == 2
    assert tiny["transcripts"]["trained_tokens"] <= tiny["transcripts"]["padded_tokens"]
    assert len(lines) == 4
    with pytest.raises(ValueError, match="there is no size huge; expected some of mini, larger"):
        bench_peers.bench_peers(
            None, tmp_path, tmp_path / "venvs", data=None, rounds=1, threads=1, sizes=["huge"], report=lines.append
        )
