"""Mistakes in programs: each changes one expression, and is written as git would."""

from __future__ import annotations

import ast
import subprocess

import pytest

from pivotopd_jax.envs.swe.mutations import as_patch, mutations

SOURCE = '''"""A module."""

LIMIT = 3 + 4


class Box:
    size: int = 5

    def fits(self, other, strict=False):
        """Whether 1 < 2."""
        if other.size < self.size and strict:
            return max(other.size, 0)
        return other.size in (1,) or self.tag == "a"


def later(x):
    def inner(y):
        return not y - x
    return inner(  x ) if x is None else -x
'''


def test_each_kind_of_mistake():
    found = {(m.function, m.line, m.before, m.after) for m in mutations("box.py", SOURCE)}
    assert found == {
        ("Box.fits", 11, "other.size < self.size and strict", "other.size < self.size or strict"),
        ("Box.fits", 11, "other.size < self.size", "other.size <= self.size"),
        ("Box.fits", 12, "max(other.size, 0)", "max(0, other.size)"),
        ("Box.fits", 12, "0", "1"),
        ("Box.fits", 13, 'other.size in (1,) or self.tag == "a"', 'other.size in (1,) and self.tag == "a"'),
        ("Box.fits", 13, "other.size in (1,)", "other.size not in (1,)"),
        ("Box.fits", 13, "1", "2"),
        ("Box.fits", 13, 'self.tag == "a"', 'self.tag != "a"'),
        ("later", 18, "not y - x", "y - x"),
        ("later", 18, "y - x", "y + x"),
        ("later", 19, "x is None", "x is not None"),
    }


def test_each_is_a_program_that_differs_there_only():
    for mutation in mutations("box.py", SOURCE):
        wrong = mutation.apply(SOURCE)
        assert ast.dump(ast.parse(wrong)) != ast.dump(ast.parse(SOURCE))
        differing = [i for i, (a, b) in enumerate(zip(SOURCE.split("\n"), wrong.split("\n"), strict=True), 1) if a != b]
        assert differing == [mutation.line]


def test_a_patch_is_one_that_git_applies(tmp_path):
    mutation = mutations("deep/box.py", SOURCE)[0]
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/box.py").write_text(mutation.apply(SOURCE))
    patch = as_patch("deep/box.py", mutation.apply(SOURCE), SOURCE)
    subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "deep/box.py").read_text() == SOURCE
    with pytest.raises(ValueError, match=r"a\.py: expected a text that ends with a new line"):
        as_patch("a.py", "x", "y\n")


def test_what_is_no_program_has_no_mistakes():
    assert mutations("a.py", "def f(:\n") == []
    assert mutations("a.py", "def f():\n    return 'é' + 1 - 2\n") == []
