"""Every notebook runs from its first cell to its last, at the size of a few seconds, and shows what it promises."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

PROJECT = Path(__file__).resolve().parents[2]


def execute(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The outputs of a copy of the notebook, run in `place`."""
    for folder in ("notebooks", "configs"):
        shutil.copytree(PROJECT / folder, place / folder, dirs_exist_ok=True)
    monkeypatch.setenv("NOTEBOOK_SHORT", "1")
    monkeypatch.delenv("MPLBACKEND", raising=False)  # launch/test.sh sets one that draws no figures into a notebook
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(PROJECT / ".cache" / "jax"))
    notebook = nbformat.read(place / "notebooks" / name, as_version=4)
    # The stored figures must not pass for new ones.
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(place / "notebooks")}}).execute()
    return [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notebooks share the student that the first of them makes."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.mark.parametrize(("name", "figures"), [("gradient_bound.ipynb", 2), ("new_divergence.ipynb", 1)])
def test_a_notebook_draws_its_figures(place, monkeypatch, name, figures):
    outputs = execute(name, place, monkeypatch)
    assert sum("image/png" in data for data in outputs) == figures


def test_a_trajectory_is_shown_with_coloured_tokens(place, monkeypatch):
    outputs = execute("reading_a_trajectory.ipynb", place, monkeypatch)
    (page,) = [data["text/html"] for data in outputs if "text/html" in data]
    assert page.count("<span title=") > 5


def test_all_notebooks_are_run():
    assert {path.name for path in (PROJECT / "notebooks").glob("*.ipynb")} == {
        "gradient_bound.ipynb", "new_divergence.ipynb", "reading_a_trajectory.ipynb",
    }  # fmt: skip
