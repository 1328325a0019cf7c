"""Files that are whole or not there."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from absl import logging

LOCK_FILE = "lock"


class DirectoryInUse(RuntimeError):
    """Another process works in a directory that takes only one; says which process."""


def parse_json(content: bytes | str) -> Any:
    """The value that `content` holds as JSON, in UTF-8.

    Raises:
        ValueError: it holds none, or one that is nested too deeply; says why in one line.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def write_json(path: Path, content: Any, **options: Any) -> None:
    """Writes `content` as JSON and replaces `path` only when all is written; `options` are those of `json.dumps`.

    Any number of processes may write the same file: the last one stands.
    """
    write_bytes(path, json.dumps(content, **options).encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Writes `content` and replaces `path` only when all is written; as for `write_json`, the last writer stands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def whole_directory(directory: Path) -> Iterator[Path]:
    """An empty directory that becomes `directory` when the block ends well, and vanishes when it does not.

    Of several processes that make the same one at once, the first one stands.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{directory.name}.", dir=directory.parent))
    try:
        yield unfinished
        unfinished.chmod(0o755)
        try:
            unfinished.rename(directory)
        except OSError:
            if not directory.is_dir():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def one_at_a_time(directory: Path) -> Iterator[None]:
    """Waits until no other process on this machine, nor thread, is in such a block for `directory`, made if missing."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have no locks: then nothing is waited for
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def held_alone(directory: Path) -> Iterator[None]:
    """Holds `directory`, made if missing, for this process alone; the system frees it when the process dies.

    The file that says so stays: a lock is on an open file, and what a path names may change.

    Raises:
        DirectoryInUse: it is held already.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK_FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise DirectoryInUse(
                f"{directory} is in use by {file.read().strip() or 'another process'}; wait for it, stop it, or choose "
                "another --workdir"
            ) from None
        except OSError as error:
            logging.warning("%s cannot be locked (%s): a second start there will not be noticed", directory, error)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def user_cache() -> Path:
    """Where things that can be made again are kept: below the user's own cache, which $XDG_CACHE_HOME moves."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pivotopd_jax"
