"""Configuration overrides: a value of the right type, or one line that says what is wrong; and a run that can be made.

What a run would do with an odd value is another matter: here it is put together, and no further.
"""

from __future__ import annotations

import sys
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from absl import flags
from fuzz.documents import fuzz, read_or_refused
from hypothesis import given
from hypothesis import strategies as st
from ml_collections import ConfigDict, config_flags
from test_train import PROJECT, tiny_config

from pivotopd_jax import command_line
from pivotopd_jax.prompts.alfworld import AlfWorldWording
from pivotopd_jax.run import make_run
from pivotopd_jax.warmstart import mini_student
from pivotopd_jax.worlds import make_world

VALUES = (
    "", "0", "-1", "1", "2", "nan", "inf", "1e999", "1.5", "True", "None", "abc", "a b", "()", "('q_proj',)", "[1]",
    "{}", "{'a': 1}", "../x", "/dev/null", "\u2028", "é", "a\nb", "9" * 400, "(" * 200, "lambda: 1", "__import__('os')",
    "'", '"', "1_0", "0x10", "served",
)  # fmt: skip


def keys(config: Any, prefix: str = "") -> list[str]:
    found = []
    for key, value in config.items():
        found += keys(value, f"{prefix}{key}.") if isinstance(value, ConfigDict) else [f"{prefix}{key}"]
    return found


KEYS = keys(tiny_config())
OVERRIDES = st.tuples(st.sampled_from([*KEYS, "nope", "world", "world.nope", "", "seed.x"]), st.sampled_from(VALUES))


def parsed(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> Any:
    """The configuration that the launch scripts would see."""
    values = flags.FlagValues()
    config = config_flags.DEFINE_config_file("config", None, "", flag_values=values)
    line = ["train.py", f"--config={PROJECT / 'configs' / 'alfworld.py'}:mini", *arguments]
    monkeypatch.setattr(sys, "argv", line)
    monkeypatch.setattr(command_line.flags, "FLAGS", values)
    command_line._parse(line)
    return config.value


def read_or_exit(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> Any:
    try:
        with monkeypatch.context() as patch:
            return parsed(patch, arguments)
    except SystemExit as end:
        message = str(end.code)
        assert message.startswith("error: ")
        assert len(message.splitlines()) == 1
        return None


@fuzz(300)
@given(st.lists(OVERRIDES, max_size=3))
def test_overrides_are_of_the_right_type_or_refused(monkeypatch, overrides):
    before = parsed(monkeypatch, [])
    config = read_or_exit(monkeypatch, [f"--config.{key}={value}" for key, value in overrides])
    if config is not None:
        assert set(keys(config)) == set(keys(before))
        for key in keys(before):
            was, now = before, config
            for part in key.split("."):
                was, now = was[part], now[part]
            assert type(now) is type(was) or now is None, key


@pytest.fixture(scope="module")
def student(tmp_path_factory) -> Path:
    """A student that is there already."""
    config, cache = tiny_config(), tmp_path_factory.mktemp("students")
    return mini_student(config, AlfWorldWording(), lambda options: make_world(options)[0], cache, lambda _: None)


ODD = {int: (0, -1, 1), float: (0.0, -1.0, float("nan"), float("inf")), str: ("", "nope", "a b", "\0")}
COSTLY = {"student", "teacher.model", "mini.", "sampler.slots", "prompt.prompt_tokens"}
"""Would have a student made, or memory taken."""


@pytest.mark.parametrize("key", [key for key in KEYS if not key.startswith(tuple(COSTLY))])
def test_a_run_is_put_together_or_refused(student, tmp_path, key):
    *path, last = key.split(".")
    values = ODD.get(type(reduce(getitem, path, tiny_config("grpo"))[last]), ())
    for value in values:
        config = tiny_config("grpo")
        config.student = str(student)
        reduce(getitem, path, config)[last] = value
        read_or_refused(lambda config=config: make_run(config, tmp_path), ValueError, FileNotFoundError, ImportError)
        assert not list(tmp_path.iterdir())
