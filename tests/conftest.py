"""Shared fixtures and options that run more tests. Nothing here needs a network or a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from toy_student import Toy, make_toy

PROJECT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")
    parser.addoption("--pretrained", action="store_true", help="run the tests on the weights of SmolLM2, too")
    parser.addoption("--vllm", action="store_true", help="run the tests on a real vLLM server, too")
    parser.addoption("--swebench", action="store_true", help="run the tests beside the official grading, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for name in ("slow", "pretrained", "vllm", "swebench"):
        for item in items:
            if name in item.keywords and not config.getoption(f"--{name}"):
                item.add_marker(pytest.mark.skip(reason=f"{name}; run with --{name}"))


def pytest_configure(config: pytest.Config) -> None:
    pin_worker(os.environ.get("PYTEST_XDIST_WORKER"))
    # Compiling dominates these tests; a cache kept with the project makes the second run quick. JAX's own environment
    # variables (JAX_COMPILATION_CACHE_DIR, JAX_ENABLE_X64) have the last word.
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(PROJECT / ".cache" / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", False)


def pin_worker(name: str | None) -> None:
    """Gives a worker of pytest-xdist ("gw0", "gw1", ...) a core of its own: XLA's threads get in each other's way."""
    if name and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(name.removeprefix("gw")) % len(cores)]})


@pytest.fixture(scope="module", autouse=True)
def compiled_programs_are_let_go() -> Iterator[None]:
    """Forgets a module's compiled programs: each holds dozens of memory mappings, and Linux gives a process 65,530."""
    yield
    jax.clear_caches()


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision for the length of one test, whatever the suite runs in."""
    with jax.enable_x64(True):
        yield


def real_data(variable: str, name: str) -> Path:
    """The directory that an environment variable names, else shared/data/`name` beside the project; skips without."""
    given = os.environ.get(variable)
    directory = Path(given) if given else PROJECT.parent / "shared" / "data" / name
    if not directory.is_dir():
        pytest.skip(f"no real {name} data: {directory} is not a directory (set {variable})")
    return directory


@pytest.fixture(scope="session")
def alfworld_data() -> Path:
    """Real ALFWorld games."""
    return real_data("ALFWORLD_DATA", "alfworld")


@pytest.fixture(scope="session")
def webshop_data() -> Path:
    """WebShop's own files."""
    return real_data("WEBSHOP_DATA", "webshop")


@pytest.fixture(scope="session")
def search_qa_data() -> Path:
    """Passages and questions of search-based question answering."""
    return real_data("SEARCH_QA_DATA", "search_qa")


@pytest.fixture(scope="session")
def qwen3_tokenizer_data() -> Path:
    """Qwen3's tokenizer: tokenizer.json.xz and tokenizer_config.json."""
    return real_data("QWEN3_TOKENIZER", "qwen3_tokenizer")


@pytest.fixture(scope="module", params=["transcript", "windowed"])
def toy(request: pytest.FixtureRequest) -> Toy:
    """A tiny student that speaks the corridor's language, in both prompt styles."""
    return make_toy(request.param)
