"""Directories and files of students, broken in every way: loaded, or refused in one line; nothing of them is run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from fuzz.documents import broken, damaged, files, fuzz, read_or_refused
from hypothesis import given
from hypothesis import strategies as st
from models.test_gguf_file import QWEN3, Written, written
from models.test_huggingface import CONFIG, SPARSE, TOKENIZER, lively

from pivotopd_jax.models import gguf_file, huggingface
from pivotopd_jax.models.published import known_config
from pivotopd_jax.models.qwen3_config import Qwen3Config

NAMES = ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "model.safetensors")


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("students") / "good"
    huggingface.save(directory, CONFIG, lively(), TOKENIZER)
    index = {"metadata": {}, "weight_map": {"lm_head.weight": "model.safetensors"}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    assert huggingface.load(directory)[0] == CONFIG
    return directory


@fuzz(400)
@given(st.sampled_from((CONFIG, SPARSE)).flatmap(lambda config: broken(config.to_dict())))
def test_configurations_are_read_or_refused(record):
    config = read_or_refused(lambda: Qwen3Config.from_dict(record), ValueError)
    if config is not None:
        sizes = (config.vocab_size, config.hidden_size, config.num_layers, config.num_heads, config.head_dim)
        assert all(type(size) is int and size > 0 for size in sizes)
        assert config.rope_theta > 0
        assert Qwen3Config.from_dict(config.to_dict()) == config


@fuzz(120)
@given(st.data())
def test_students_are_loaded_or_refused(good, tmp_path, data):
    directory = tmp_path / "student"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(good, directory)
    name = data.draw(st.sampled_from((*NAMES, "model.safetensors.index.json")))
    path = directory / name
    if name == "model.safetensors":
        content = path.read_bytes()
        size = int.from_bytes(content[:8], "little")
        header = data.draw(files(json.loads(content[8 : 8 + size])))
        content = len(header).to_bytes(8, "little") + header + content[8 + size :]
        path.write_bytes(data.draw(damaged(content)))
    else:
        path.write_bytes(data.draw(files(json.loads(path.read_text()))))
    before = sorted(path.name for path in directory.iterdir())
    loaded = read_or_refused(lambda: huggingface.load(directory), ValueError, FileNotFoundError)
    assert sorted(path.name for path in directory.iterdir()) == before
    if name == "config.json":
        read_or_refused(lambda: known_config(str(directory)), ValueError)
    if loaded is not None:
        config, _, params, tokenizer = loaded
        assert jax.tree.leaves(params)[0].dtype == np.float32
        assert len(tokenizer) <= config.vocab_size


@pytest.fixture(scope="module")
def gguf_student(tmp_path_factory) -> Callable[[], Written]:
    """A good file; behind a function, for nobody wants to read its weights where a test fails."""
    found = written(QWEN3, tmp_path_factory.mktemp("gguf"))
    return lambda: found


OTHER = (0, 1, 3, 2**31 - 1, 0.0, 2.5, float("nan"), True, "", "x", "a b c", ["a b"], ["a", "b"], [0], [2**31 - 1] * 3)


@fuzz(100)
@given(st.data())
def test_gguf_files_are_loaded_or_refused(gguf_student, tmp_path, data):
    path = tmp_path / "student.gguf"
    metadata = dict(gguf_student().metadata)
    for _ in range(data.draw(st.integers(0, 2))):
        key = data.draw(st.sampled_from(sorted(metadata)))
        metadata[key] = data.draw(st.sampled_from((None, *OTHER)))
    replace(gguf_student(), metadata={k: v for k, v in metadata.items() if v is not None}).write(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        # The head of a file says what is in it; most of the rest is weights.
        at = data.draw(st.integers(0, 12_000))
        longs = (0, 1, 9, 2**40, 2**64 - 1)
        content[at : at + 8] = data.draw(st.sampled_from(longs)).to_bytes(8, "little")
    path.write_bytes(data.draw(damaged(bytes(content))))
    loaded = read_or_refused(lambda: gguf_file.load(path), ValueError)
    if loaded is not None:
        assert len(loaded[3]) <= loaded[0].vocab_size
