"""Rows as SWE-bench, SWE-Gym and SWE-smith write them."""

from __future__ import annotations

import gzip
import json

import pytest

from pivotopd_jax.envs.row_files import DataError
from pivotopd_jax.envs.swe.instances import Instance, as_row, find_instances, read_instances, write_instances

ROW = {
    "instance_id": "astropy__astropy-12907", "repo": "astropy/astropy", "base_commit": "d16bfe05", "version": "4.3",
    "problem_statement": "It fails.", "patch": "diff --git a/x b/x\n", "test_patch": "+++ b/tests/test_x.py\n",
    "FAIL_TO_PASS": '["tests/test_x.py::test_a"]', "PASS_TO_PASS": '["tests/test_y.py::test_b[1]"]',
    "hints_text": "", "created_at": "2022", "environment_setup_commit": "298ccb47",
}  # fmt: skip
SMITH = {
    "instance_id": "tobymao__sqlglot.036601ba.lm_rewrite__02nh95i0", "repo": "swesmith/tobymao__sqlglot.036601ba",
    "patch": "diff --git a/x b/x\n", "FAIL_TO_PASS": ["tests/test_x.py::test_a"], "PASS_TO_PASS": [],
    "image_name": "swesmith.x86_64.tobymao__sqlglot.036601ba", "problem_statement": "It fails.",
}  # fmt: skip


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_rows_of_swe_bench(tmp_path):
    (tmp_path / "tasks.jsonl.gz").write_bytes(gzip.compress(lines(ROW).encode()))
    (found,) = read_instances(find_instances(tmp_path))
    assert found == Instance(
        "astropy__astropy-12907", "astropy/astropy", "d16bfe05", "It fails.", "diff --git a/x b/x\n",
        "+++ b/tests/test_x.py\n", ("tests/test_x.py::test_a",), ("tests/test_y.py::test_b[1]",), "4.3",
    )  # fmt: skip
    assert found.test_files == ("tests/test_x.py", "tests/test_y.py")


def test_rows_of_swe_smith(tmp_path):
    """Their patch breaks the repository, which lies in an image."""
    (tmp_path / "smith.jsonl").write_text(lines(SMITH))
    (found,) = read_instances(find_instances(tmp_path / "smith.jsonl"))
    assert (found.breaks, found.image) == (True, "swesmith.x86_64.tobymao__sqlglot.036601ba")
    assert found.fail_to_pass == ("tests/test_x.py::test_a",)


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="reading .parquet is optional")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist([ROW]), tmp_path / "tasks.parquet")
    (tmp_path / "rows.jsonl").write_text(lines(ROW))
    assert read_instances(find_instances(tmp_path)) == read_instances(tmp_path / "rows.jsonl")


def test_written_rows_are_read_again(tmp_path):
    (tmp_path / "in.jsonl").write_text(lines(ROW))
    found = read_instances(tmp_path / "in.jsonl")
    write_instances(tmp_path / "out.jsonl", found)
    assert read_instances(tmp_path / "out.jsonl") == found
    row = as_row(found[0])
    assert {key: row[key] for key in ("FAIL_TO_PASS", "PASS_TO_PASS", "version")} == {
        key: ROW[key] for key in ("FAIL_TO_PASS", "PASS_TO_PASS", "version")
    }


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{**ROW, "FAIL_TO_PASS": "[1]"}], "line 1: FAIL_TO_PASS and PASS_TO_PASS must be lists of names"),
        ([{**ROW, "FAIL_TO_PASS": "["}], "line 1: FAIL_TO_PASS and PASS_TO_PASS must be lists of names"),
        ([{**ROW, "PASS_TO_PASS": None}], "line 1: FAIL_TO_PASS and PASS_TO_PASS must be lists of names"),
        ([{"instance_id": "x"}], "line 1: no repo, patch, FAIL_TO_PASS, PASS_TO_PASS; expected a row of SWE-bench"),
        ([ROW, ROW], "line 2: a second task 'astropy__astropy-12907'"),
        (["text"], "line 1 is 'text'; expected a JSON object"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path, rows, message):
    (tmp_path / "tasks.jsonl").write_text(lines(*rows))
    with pytest.raises(DataError, match=message.replace("[", r"\[")):
        read_instances(tmp_path / "tasks.jsonl")


def test_no_tasks(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no SWE tasks: expected one of tasks.jsonl, tasks.jsonl.gz"):
        find_instances(tmp_path)
