"""Our verdicts beside those of the official package `swebench`, on the same logs; it has a Python of its own."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from swe_repository import archive

from pivotopd_jax.envs.swe.bubblewrap import BubblewrapSandbox
from pivotopd_jax.envs.swe.grading import run_tests, verdict
from pivotopd_jax.envs.swe.instances import Instance
from pivotopd_jax.envs.swe.mutations import as_patch, mutations

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


def official_verdicts(logs: list[str]) -> list[Any]:
    """As `official_verdicts.py` writes them."""
    python = os.environ.get("SWEBENCH_PYTHON", "")
    if not python:
        pytest.fail("SWEBENCH_PYTHON names no interpreter with swebench; run `bash launch/test.sh --swebench`")
    asked = json.dumps({"tests": [SHOP.fail_to_pass, SHOP.pass_to_pass], "logs": logs})
    script = Path(__file__).with_name("official_verdicts.py")
    done = subprocess.run([python, str(script)], input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def patches() -> list[str]:
    """The right one, none, and 20 that are drawn from mistakes in the mended and in the broken program."""
    drawn = random.Random(0)
    found = [
        as_patch("shop.py", FILES["shop.py"], mutation.apply(text))
        for text in (RIGHT, FILES["shop.py"]) for mutation in mutations("shop.py", text)
    ]  # fmt: skip
    found.append(as_patch("shop.py", FILES["shop.py"], "def broken(:\n"))
    return [GOLD, "", *(drawn.choice(found) for _ in range(20))]


@pytest.mark.swebench
def test_verdicts_agree(machine):
    sandbox = BubblewrapSandbox(machine, archive(FILES))
    ran = [run_tests(SHOP, sandbox, patch.encode()) for patch in patches()]
    ours = [verdict(SHOP, one) for one in ran]
    found = official_verdicts([one.output.head for one in ran])
    assert found == [[one.fail_to_pass[0], one.pass_to_pass[0], one.resolved] for one in ours]
    assert ours[0].resolved
    assert not ours[1].resolved
    assert len(set(ours)) > 3
