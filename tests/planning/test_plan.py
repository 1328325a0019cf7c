"""A plan adds up, and says what does not fit; the compiler of TPUs is asked where it is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh

from pivotopd_jax.command_line import load_config
from pivotopd_jax.models.published import PUBLISHED
from pivotopd_jax.models.qwen3 import abstract
from pivotopd_jax.planning.chips import CHIPS
from pivotopd_jax.planning.plan import Assumptions, make_plan, memory_table, render, stage_table
from pivotopd_jax.planning.programs import AXES, Memory, mesh_shape, parameter_bytes
from pivotopd_jax.planning.workload import Lengths

PROJECT = Path(__file__).parents[2]
MODEL = PUBLISHED["Qwen/Qwen3-0.6B"]
ASSUMED = Assumptions(Lengths(turns=10, prompt=1000, response=100))
EIGHT = AbstractMesh((8, 1, 1), AXES)


def test_parameters_are_divided_by_the_mesh():
    whole = sum(x.size for x in jax.tree.leaves(abstract(MODEL)[1]))
    assert whole == pytest.approx(0.596e9, rel=1e-3)
    assert parameter_bytes(MODEL, AbstractMesh((1, 1, 1), AXES), jnp.float32) == 4 * whole
    norms = 4 * (28 * (2 * 1024 + 2 * 128) + 1024)
    assert parameter_bytes(MODEL, AbstractMesh((4, 2, 1), AXES), jnp.float32) == (4 * whole - norms) / 8 + norms


def test_memory_is_what_is_held_at_once():
    programs = {"score": Memory(1e9, 2e9), "accumulate": Memory(1e9, 5e9)}
    found = memory_table(load_config("configs/webshop.py"), MODEL, EIGHT, ASSUMED, programs)
    assert found.pop("in all") == sum(found.values())
    assert found["temporaries of the largest program"] == 5e9
    assert found["moments of Adam, float32"] == 2 * found["gradient, float32"] == 2 * found["trained weights, float32"]
    # 128 slots of 4096 + 512 tokens, 28 layers, keys and values of 8 heads of 128 in two bytes, on four chips
    assert found["sampler's cache"] == 128 * 4608 * 28 * 2 * 8 * 128 * 2 / 4


def test_stages_are_bound_by_what_takes_longest():
    config, chip = load_config("configs/webshop.py"), CHIPS["v5p"]
    found = stage_table(config, MODEL, EIGHT, chip, ASSUMED)
    assert found["update"].bound == "operations"
    assert found["update"].seconds == pytest.approx(found["update"].operations / (8 * 459e12 * 0.4))
    assert stage_table(config, MODEL, EIGHT, chip._replace(link=1e6), ASSUMED)["update"].bound == "links"
    assert stage_table(config, MODEL, EIGHT, chip._replace(bandwidth=1e9), ASSUMED)["collect"].bound == "memory"


@pytest.mark.parametrize(("text", "shape"), [("16x1", (16, 1, 1)), ("4x2x8", (4, 2, 8))])
def test_meshes_are_read(text, shape):
    assert mesh_shape(text) == shape


@pytest.mark.parametrize("text", ["16", "ax1", "4x0", "1x2x3x4", ""])
def test_other_meshes_are_refused(text):
    with pytest.raises(ValueError, match="expected FSDPxTENSOR or FSDPxTENSORxEXPERT"):
        mesh_shape(text)


def test_an_unknown_chip_is_refused():
    with pytest.raises(ValueError, match="no chip v99; expected some of v5e"):
        make_plan(load_config("configs/webshop.py"), None, ["v5e", "v99"], ASSUMED)  # type: ignore[arg-type]


def test_a_plan_says_what_does_not_fit():
    config = load_config("configs/webshop.py")
    plan = {
        "student": "Qwen/Qwen3-0.6B", "mesh": dict(EIGHT.shape), "assumed": ASSUMED, "memory": {"in all": 20e9},
        "chips": {name: stage_table(config, MODEL, EIGHT, CHIPS[name], ASSUMED) for name in ("v5e", "h100")},
    }  # fmt: skip
    text = render(plan)
    assert "**v5e** (16 GB: DOES NOT FIT)" in text
    assert "**h100** (80 GB: fits)" in text
    assert "bottleneck: update, bound by operations" in text


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("libtpu"), reason="needs pip install -r requirements-plan.txt")
def test_the_compiler_of_tpus_is_asked(tmp_path):
    """A tiny student, so that it takes seconds; the programs are those of the full size."""
    sizes = {"vocab_size": 512, "hidden_size": 128, "intermediate_size": 256, "head_dim": 128, "num_hidden_layers": 3,
             "num_attention_heads": 2, "num_key_value_heads": 1, "rope_theta": 1e6}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", **sizes}))
    command = ["--mesh=4x1", "--topology=v5e:2x2", f"--student={tmp_path}", "--row_tokens=256"]
    done = subprocess.run(
        [sys.executable, "launch/plan.py", *command], cwd=PROJECT, env=dict(os.environ), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "compiled accumulate: " in done.stderr
    assert "temporaries of the largest program" in done.stdout
