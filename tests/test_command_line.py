"""What a user types wrong ends with one line that says what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pivotopd_jax.command_line import load_config

PROJECT = Path(__file__).resolve().parents[1]
MINI = "--config=configs/alfworld.py:mini"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([MINI, "--config.nope=1"], "error: the configuration has no key 'nope'; its keys are in the file given"),
        ([MINI, "--config.world={}"], "error: --config.world is a section; set its keys one by one"),
        ([MINI, "--config.world.source=/no/such/games"], "error: no directory '/no/such/games' with ALFWorld games"),
        (
            [
                MINI,
                "--config.teacher=served",
                "--config.teacher.base_url=127.0.0.1",
                "--config.mini.games=16",
                "--config.mini.batch_tokens=768",
            ],
            "error: config.teacher.base_url is '127.0.0.1'; expected something like",
        ),
        (["--config=configs/webshop.py"], "error: WEBSHOP_DATA='' is not a directory; set it to the folder with"),
        (["--config=configs/search_qa.py"], "error: SEARCH_QA_DATA='' is not a directory; set it to the folder with"),
        (["--config=configs/alfworld.py:nope"], "has no preset 'nope'; choose one of paper, mini, mini_real"),
    ],
)
def test_one_clear_message(arguments, message, tmp_path, monkeypatch):
    for variable in ("WEBSHOP_DATA", "SEARCH_QA_DATA"):
        monkeypatch.delenv(variable, raising=False)
    command = [sys.executable, "launch/train.py", f"--workdir={tmp_path / 'run'}", *arguments]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_configuration_is_loaded_by_the_name_that_launch_scripts_take():
    file = PROJECT / "configs" / "webshop.py"
    assert load_config(f"{file}:mini").student == "mini"
    assert load_config(str(file)).student == "Qwen/Qwen3-1.7B"
    with pytest.raises(ValueError, match="has no preset 'nope'"):
        load_config(f"{file}:nope")
    with pytest.raises(ValueError, match=r"'README' is not a configuration; expected FILE.py, or FILE.py:preset"):
        load_config("README")
    with pytest.raises(FileNotFoundError, match=r"no/such.py"):
        load_config("no/such.py:mini")
