"""What the launch scripts share: flags that are read with clear messages, and errors that end with one line."""

from __future__ import annotations

import importlib.util
import logging as python_logging
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags, logging
from ml_collections import ConfigDict

from pivotopd_jax.envs.guard import EnvironmentFailure
from pivotopd_jax.envs.search_qa.http_retriever import RetrieverFailure
from pivotopd_jax.envs.swe.sandbox import SandboxUnavailable
from pivotopd_jax.files import DirectoryInUse
from pivotopd_jax.learner.learner import NonFiniteUpdates
from pivotopd_jax.processes import ProcessFailure
from pivotopd_jax.prompts.prompter import PrivilegedPrompt
from pivotopd_jax.teachers.protocol import TeacherFailure


def run(main: Callable[..., Any], *, required: Sequence[str] = (), positional: bool = False) -> None:
    """Parses flags and calls `main`; what a user can mend ends with one line and exit status 1.

    Args:
        main: the script.
        required: names of flags that must be given.
        positional: give `main` the list of what is not a flag.
    """
    # The teacher may be named by its kind alone, --config.teacher=served; ml_collections reads sys.argv itself.
    sys.argv = [re.sub(r"^(--?config\.teacher)=", r"\1.kind=", argument) for argument in sys.argv]
    flags.mark_flags_as_required(required)
    app.run(lambda found: _call(main, *([found[1:]] if positional else [])), flags_parser=_parse)


def load_config(name: str) -> Any:
    """The configuration that `name` says, "FILE.py" or "FILE.py:preset".

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not a configuration file, or has no such preset.
    """
    path, _, preset = name.partition(":")
    spec = importlib.util.spec_from_file_location("config", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{name!r} is not a configuration; expected FILE.py, or FILE.py:preset")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(*([preset] if preset else []))


def _call(main: Callable[..., Any], *arguments: Any) -> None:
    logging.set_verbosity(logging.WARNING)
    python_logging.getLogger("bm25s").setLevel(python_logging.WARNING)  # it tells of every index it builds
    try:
        main(*arguments)
    except (
        ValueError, FileNotFoundError, ImportError, PrivilegedPrompt, TeacherFailure, RetrieverFailure, ProcessFailure,
        SandboxUnavailable, DirectoryInUse, NonFiniteUpdates, EnvironmentFailure,
    ) as error:  # fmt: skip
        logging.debug("traceback of the error below", exc_info=True)
        sys.exit(f"error: {error}")


def _refuse_sections() -> None:
    """Refuses an override of a whole section, which would lose the keys that it does not name.

    Raises:
        ValueError: there is one.
    """
    for name in flags.FLAGS:
        root, _, path = name.partition(".")
        part = flags.FLAGS[root].value if path and root in flags.FLAGS else None
        for key in path.split("."):
            part = part[key] if isinstance(part, ConfigDict) and key in part else None
        if isinstance(part, ConfigDict):
            raise ValueError(f"--{name} is a section; set its keys one by one, --{name}.KEY=VALUE")


def _parse(arguments: list[str]) -> list[str]:
    try:
        rest = flags.FLAGS(arguments)
        _refuse_sections()
        return rest
    except (AttributeError, KeyError) as error:
        name = str(error).strip("\"'")
        sys.exit(f"error: the configuration has no key {name!r}; its keys are in the file given to --config")
    except (flags.Error, TypeError, ValueError) as error:
        # A configuration file that fails is reported with its traceback; the last line says why.
        reason = [line.strip() for line in str(error).splitlines() if line.strip()][-1]
        sys.exit(f"error: {reason} (expected --config=configs/NAME.py[:preset] and --workdir=DIR)")
