"""Grades logs with the official package; the interpreter that SWEBENCH_PYTHON names runs it, and needs nothing of ours.

Standard input is JSON: {"tests": [FAIL_TO_PASS, PASS_TO_PASS], "logs": [text of each]}. Standard output is JSON: for
each log null where no result is found in it, else [passed of FAIL_TO_PASS, passed of PASS_TO_PASS, resolved].
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from swebench.harness.constants import END_TEST_OUTPUT, START_TEST_OUTPUT  # pyright: ignore[reportMissingImports]
from swebench.harness.grading import get_eval_report  # pyright: ignore[reportMissingImports]
from swebench.types import TestSpec  # pyright: ignore[reportMissingImports]

KINDS = ("FAIL_TO_PASS", "PASS_TO_PASS")


def verdict(log: str, tests: list[list[str]], path: Path) -> list[Any] | None:
    path.write_text(f"{START_TEST_OUTPUT}\n{log}\n{END_TEST_OUTPUT}\n")
    spec = TestSpec("x-1", "", [], "x", "", *tests, "parse_log_pytest", "pass_and_fail")
    row = {"instance_id": "x-1", "model_name_or_path": "x", "model_patch": "x"}
    report = get_eval_report(spec, row, str(path), True)["x-1"]
    if "tests_status" not in report:
        return None
    return [*(len(report["tests_status"][kind]["success"]) for kind in KINDS), report["resolved"]]


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as place:
        json.dump([verdict(log, asked["tests"], Path(place, "log")) for log in asked["logs"]], sys.stdout)
