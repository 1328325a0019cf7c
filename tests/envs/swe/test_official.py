"""Our verdicts beside those of the official package `swebench`, on the same logs; skipped where it is not installed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from swe_repository import archive

from pivotopd_jax.envs.swe.bubblewrap import BubblewrapSandbox
from pivotopd_jax.envs.swe.grading import Verdict, run_tests, verdict
from pivotopd_jax.envs.swe.instances import Instance
from pivotopd_jax.envs.swe.mutations import as_patch, mutations

official = pytest.importorskip(
    "swebench.harness.grading", reason="the official grading is optional: pip install swebench"
)
FILES = {
    "shop.py": (
        "def total(prices, rate):\n    return sum(prices) + rate\n\n\n"
        "def cheapest(prices):\n    return min(prices) if prices else None\n\n\n"
        "def count(prices, most):\n    return len([p for p in prices if p <= most])\n"
    ),
    "tests/test_shop.py": (
        "import pytest\nfrom shop import cheapest, count, total\n\n\n"
        "@pytest.mark.parametrize(('prices', 'sum_'), [([1], 2), ([1, 2], 6), ([], 0)])\n"
        "def test_total(prices, sum_):\n    assert total(prices, 2) == sum_\n\n\n"
        "def test_cheapest():\n    assert cheapest([3, 2]) == 2\n    assert cheapest([]) is None\n\n\n"
        "def test_count():\n    assert count([1, 2, 3], 2) == 2\n\n\n"
        "@pytest.mark.xfail\ndef test_later():\n    assert total([1], 1) == 7\n\n\n"
        "@pytest.mark.skip(reason='not here')\ndef test_never():\n    pass\n"
    ),
}
RIGHT = FILES["shop.py"].replace("sum(prices) + rate", "sum(prices) * rate")
GOLD = as_patch("shop.py", FILES["shop.py"], RIGHT)
SHOP = Instance(
    "shop-1", "shop", "", "", GOLD, "", ("tests/test_shop.py::test_total[prices1-6]",),
    tuple(f"tests/test_shop.py::{name}" for name in (
        "test_total[prices2-0]", "test_cheapest", "test_count", "test_later"
    )),
)  # fmt: skip


def official_verdict(log: str, directory: Path) -> Verdict | None:
    """What `get_eval_report` counts; None where it finds no result in the log."""
    from swebench.harness.constants import END_TEST_OUTPUT, START_TEST_OUTPUT  # pyright: ignore[reportMissingImports]
    from swebench.types import TestSpec  # pyright: ignore[reportMissingImports]

    tests = (list(SHOP.fail_to_pass), list(SHOP.pass_to_pass))
    spec = TestSpec(SHOP.id, "", [], SHOP.repo, "", *tests, "parse_log_pytest", "pass_and_fail")
    path = directory / "log"
    path.write_text(f"{START_TEST_OUTPUT}\n{log}\n{END_TEST_OUTPUT}\n")
    row = {"instance_id": SHOP.id, "model_name_or_path": "x", "model_patch": "x"}
    report = official.get_eval_report(spec, row, str(path), True)[SHOP.id]
    if "tests_status" not in report:
        return None
    counts = [report["tests_status"][kind] for kind in ("FAIL_TO_PASS", "PASS_TO_PASS")]
    verdict = Verdict(*((len(c["success"]), len(c["success"]) + len(c["failure"])) for c in counts))
    assert report["resolved"] == verdict.resolved
    return verdict


def patches() -> list[str]:
    """The right one, none, and 20 that are drawn from mistakes in the mended and in the broken program."""
    drawn = random.Random(0)
    found = [
        as_patch("shop.py", FILES["shop.py"], mutation.apply(text))
        for text in (RIGHT, FILES["shop.py"]) for mutation in mutations("shop.py", text)
    ]  # fmt: skip
    found.append(as_patch("shop.py", FILES["shop.py"], "def broken(:\n"))
    return [GOLD, "", *(drawn.choice(found) for _ in range(20))]


def test_verdicts_agree(machine, tmp_path):
    sandbox = BubblewrapSandbox(machine, archive(FILES))
    verdicts = []
    for patch in patches():
        ran = run_tests(SHOP, sandbox, patch.encode())
        ours = verdict(SHOP, ran)
        assert ours == official_verdict(ran.output.head, tmp_path)
        verdicts.append(ours)
    assert verdicts[0].resolved
    assert not verdicts[1].resolved
    assert len(set(verdicts)) > 3
