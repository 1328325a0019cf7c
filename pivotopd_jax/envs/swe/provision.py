"""What a sandbox's Python can import besides the repository: pytest, in releases that are always the same."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from pivotopd_jax.envs.swe.sandbox import SandboxUnavailable
from pivotopd_jax.files import user_cache, whole_directory

PYTEST = ("pytest==8.4.2", "pluggy==1.6.0", "iniconfig==2.1.0", "packaging==25.0", "pygments==2.19.2")
"""All of it, pure Python; a task's tests may come out otherwise under another release."""


@lru_cache(maxsize=1)
def sandbox_packages() -> Path:
    """The directory of these packages; made by pip, from its package index, when it is first asked for.

    It lies where whoever runs the sandboxes can read it: in the user's cache, or, where that is closed to others (as
    root's is), below /var/tmp.

    Raises:
        SandboxUnavailable: pip failed; with its last line.
    """
    directory = _open_cache() / PYTEST[0].replace("==", "-")
    if not directory.is_dir():
        with whole_directory(directory) as unfinished:
            pip("install", "--no-deps", "--target", str(unfinished), *PYTEST)
    return directory


def pip(*arguments: str) -> None:
    """Runs pip.

    Raises:
        SandboxUnavailable: it failed; with its last line.
    """
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SandboxUnavailable(f"pip {' '.join(arguments)} failed: {last}")


def _open_cache() -> Path:
    """A directory of our own that everyone may enter."""
    own = user_cache() / "swe"
    places = [parent for parent in own.parents if parent.is_dir()]
    if not all(place.stat().st_mode & 0o001 for place in places):
        own = Path(f"/var/tmp/pivotopd_jax-{os.getuid()}")
    own.mkdir(parents=True, exist_ok=True, mode=0o755)
    if own.stat().st_uid != os.getuid():
        raise SandboxUnavailable(f"{own} belongs to somebody else; remove it, or set XDG_CACHE_HOME")
    return own
