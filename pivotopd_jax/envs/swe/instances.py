"""Tasks in SWE-bench's schema: read from and written to files that the official harness, SWE-Gym and SWE-smith use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotopd_jax.envs.row_files import DataError, read_rows

FILES = ("tasks.jsonl", "tasks.jsonl.gz", "tasks.parquet")

_ARCHIVE = re.compile(r"((\w[\w.+-]*/)*\w[\w.+-]*)?")
_IMAGE = re.compile(r"(?:\w[\w.:/@-]*)?", re.ASCII)
_TEST_FILE = re.compile(r"^\+\+\+ b/(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Instance:
    """One row.

    Attributes:
        id: `instance_id`.
        repo: which repository it is of.
        base_commit: on which commit it rests.
        statement: `problem_statement`, what is wrong, in words.
        patch: what mends it, as a diff.
        test_patch: what is added to the tests before they are run; may be empty.
        fail_to_pass: names of tests that fail before and have to pass after.
        pass_to_pass: names of tests that pass before and after.
        version: of the repository; the official harness goes by it.
        image: of a container in which the repository lies; "" where it follows from `id`.
        archive: of the repository with the patch, for local tasks: its path from the folder of the tasks; else "".
        breaks: `patch` is the one that broke the repository, as SWE-smith writes it; then its reverse mends it.
    """

    id: str
    repo: str
    base_commit: str
    statement: str
    patch: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    version: str = ""
    image: str = ""
    archive: str = ""
    breaks: bool = False

    @property
    def test_files(self) -> tuple[str, ...]:
        """Files in which its tests are, in order."""
        named = [test.partition("::")[0] for test in (*self.fail_to_pass, *self.pass_to_pass) if "::" in test]
        return tuple(sorted({*named, *_TEST_FILE.findall(self.test_patch)}))


def read_instances(path: Path) -> list[Instance]:
    """The rows of a file .jsonl, .jsonl.gz or .parquet.

    Raises:
        DataError: a damaged file, a row that cannot be used, or two of the same name.
        ImportError: .parquet needs pyarrow.
    """
    found: dict[str, Instance] = {}
    for where, row in read_rows(path):
        instance = _instance(row, where)
        if instance.id in found:
            raise DataError(f"{where}: a second task {instance.id!r}")
        found[instance.id] = instance
    return list(found.values())


def write_instances(path: Path, instances: Iterable[Instance]) -> None:
    """Writes rows of SWE-bench's schema as .jsonl, with `archive` beside it where there is one."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(as_row(instance), ensure_ascii=False) + "\n" for instance in instances)


def as_row(instance: Instance) -> dict[str, str]:
    """`instance` as the official harness reads it."""
    row = {
        "instance_id": instance.id,
        "repo": instance.repo,
        "base_commit": instance.base_commit,
        "version": instance.version,
        "problem_statement": instance.statement,
        "hints_text": "",
        "created_at": "",
        "patch": instance.patch,
        "test_patch": instance.test_patch,
        "FAIL_TO_PASS": json.dumps(instance.fail_to_pass),
        "PASS_TO_PASS": json.dumps(instance.pass_to_pass),
        "environment_setup_commit": instance.base_commit,
    }
    return row | ({"archive": instance.archive} if instance.archive else {})


def _instance(row: Mapping[str, Any], where: str) -> Instance:
    needed = ("instance_id", "repo", "patch", "FAIL_TO_PASS", "PASS_TO_PASS")
    missing = [name for name in needed if name not in row] or ([] if row["instance_id"] else ["instance_id"])
    if missing:
        raise DataError(f"{where}: no {', '.join(missing)}; expected a row of SWE-bench, SWE-Gym or SWE-smith")

    def text(name: str) -> str:
        value = row.get(name) or ""
        if not isinstance(value, str | int | float):
            raise DataError(f"{where}: {name} is {value!r:.80}; expected a text")
        return str(value)

    # Both end up beside others: in the path of a file, and on the command line of a container engine.
    if not _ARCHIVE.fullmatch(text("archive")):
        raise DataError(
            f"{where}: archive is {text('archive')!r:.80}; expected the path of a file in the folder of the tasks"
        )
    for name in ("image_name", "docker_image"):
        if not _IMAGE.fullmatch(text(name)):
            raise DataError(f"{where}: {name} is {text(name)!r:.80}; expected the name of an image")
    return Instance(
        text("instance_id"), text("repo"), text("base_commit"), text("problem_statement"), text("patch"),
        text("test_patch"), _names(row["FAIL_TO_PASS"], where), _names(row["PASS_TO_PASS"], where), text("version"),
        text("image_name") or text("docker_image"), text("archive"),
        breaks="image_name" in row and not row.get("base_commit"),
    )  # fmt: skip


def _names(value: Any, where: str) -> tuple[str, ...]:
    """Names of tests: a list, or one as a JSON string."""
    try:
        names = json.loads(value) if isinstance(value, str) else list(value)
    except (ValueError, TypeError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{where}: FAIL_TO_PASS and PASS_TO_PASS must be lists of names, or such lists as JSON strings")
    return tuple(names)


def find_instances(source: Path) -> Path:
    """The file of tasks that `source` is, or the one of `FILES` in it.

    Raises:
        FileNotFoundError: there is none; says what was looked for.
    """
    found = [path for path in (source, *(source / name for name in FILES)) if path.is_file()]
    if not found:
        raise FileNotFoundError(
            f"{source} holds no SWE tasks: expected one of {', '.join(FILES)}, or such a file itself; "
            "python launch/build_swe_tasks.py --out=DIR makes some"
        )
    return found[0]
