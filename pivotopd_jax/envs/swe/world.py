"""SWE tasks as a world: rows of SWE-bench's schema by split, their episodes, and a planner for those made here."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pivotopd_jax.envs.real_data import named_directory
from pivotopd_jax.envs.swe.bubblewrap import Bubblewrap, BubblewrapSandbox, check_bubblewrap
from pivotopd_jax.envs.swe.builder import build_tasks
from pivotopd_jax.envs.swe.changes import apart, compose
from pivotopd_jax.envs.swe.containers import ContainerSandbox, container_program, image_of
from pivotopd_jax.envs.swe.engine import Assignment, EpisodeLimits, SweEnv
from pivotopd_jax.envs.swe.instances import FILES, Instance, find_instances, read_instances
from pivotopd_jax.envs.swe.packages import PACKAGES
from pivotopd_jax.envs.swe.planner import SwePlanner
from pivotopd_jax.envs.swe.provision import sandbox_packages
from pivotopd_jax.envs.swe.remembered import KeptBytes
from pivotopd_jax.envs.swe.sandbox import Limits, Sandbox
from pivotopd_jax.envs.swe.swerex import RemoteSandbox
from pivotopd_jax.files import one_at_a_time, user_cache, whole_directory
from pivotopd_jax.records import Task

VARIABLE = "SWE_DATA"
SPLITS = ("train", "validation", "test")


class Swe:
    """Tasks, their episodes and their planner.

    Attributes:
        name: says which tasks these are, for tables and logs.
        kinds: SWE.
        splits: train, validation and test.
    """

    kinds: Sequence[str] = ("SWE",)
    splits: Sequence[str] = SPLITS

    def __init__(
        self,
        source: str | Path = "generated",
        *,
        actions: str = "bash",
        changes: int = 3,
        orders: int = 2,
        built: int = 50,
        image: str = "",
        server: str = "",
        limits: Limits | None = None,
        episode: EpisodeLimits | None = None,
        cache: Path | None = None,
    ) -> None:
        """Checks the arguments; tasks are read, or made, when they are asked for.

        Args:
            source: "generated" (made on this machine from small packages of the package index, once), "real" (the
                directory that the environment variable SWE_DATA names), or the path of a file of tasks or of a
                directory with one; it may also hold one file a split, say train.jsonl and test.parquet.
            actions: "bash", any command; or "changes", the few commands of `changes.Changes` (tasks made here only).
            changes: how many such a task has.
            orders: tasks of this kind that are made of each mistake.
            built: tasks that are made, if the source is "generated".
            image: of containers, with {id} in the place of a task's name, where rows do not name their own.
            server: address of a server of swe-rex for each task, with {id} in the place of its name; "" starts
                containers here. Its password is in the environment variable SWEREX_TOKEN, if it has one.
            limits: of a command.
            episode: of an episode.
            cache: directory of what is made, and of what is remembered; None for the user's own cache.

        Raises:
            ValueError: an argument that is not one of the above.
            FileNotFoundError: no tasks where `source` says.
        """
        if actions not in ("bash", "changes"):
            raise ValueError(f"actions {actions!r} is not known; choose one of bash, changes")
        if changes < 2 or min(orders, built) < 1:
            raise ValueError(f"changes={changes}, orders={orders}, built={built}: expected at least 2, 1 and 1")
        self._generated, self._built = source == "generated", built
        self._cache = cache or user_cache() / "swe"
        self._directory = named_directory(VARIABLE, FILES[0]) if source == "real" else Path(source)
        if not self._generated and not _split_files(self._directory):
            find_instances(self._directory)
        self._actions, self._changes, self._orders = actions, changes, orders
        self._image, self._server = image, server
        self._limits, self._episode = limits or Limits(), episode or EpisodeLimits()
        self._planner = SwePlanner()
        self._tasks: dict[str, Sequence[Task]] = {}
        which = f"generated, {built}" if self._generated else str(source)
        self.name = f"swe ({which}, {actions if actions == 'bash' else f'{changes} changes'})"

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a split, in a fixed order.

        Raises:
            ValueError: no such split, with the ones that exist; or a broken file.
            SandboxUnavailable: they have to be made here, and that is not possible.
        """
        if split not in SPLITS:
            raise ValueError(f"{self.name}: split {split!r} is not known; choose one of {', '.join(SPLITS)}")
        if split not in self._tasks:
            self._tasks[split] = self._bash_tasks(split) if self._actions == "bash" else self._changes_tasks(split)
        return self._tasks[split]

    def make(self) -> SweEnv:
        """A fresh episode holder."""
        return SweEnv(command_seconds=self._limits.seconds, limits=self._episode)

    @property
    def planner(self) -> SwePlanner:
        """The planner of tasks made here; of others nobody knows the way."""
        return self._planner

    def _bash_tasks(self, split: str) -> list[Task]:
        directory = self._place()
        files = _split_files(directory)
        if files:
            found = read_instances(files[split]) if split in files else []
        else:
            found = in_split(read_instances(find_instances(directory)), split)
        return [Task(one.id, "SWE", Assignment(one, self._sandbox(one, directory))) for one in found]

    def _changes_tasks(self, split: str) -> list[Task]:
        directory = self._place()
        groups: defaultdict[str, list[Instance]] = defaultdict(list)
        for one in read_instances(find_instances(directory)):
            groups[one.archive].append(one)
        usable = {archive: apart(group) for archive, group in groups.items() if archive}
        large = {archive: group for archive, group in usable.items() if len(group) >= self._changes}
        chosen = in_split([one for group in large.values() for one in group], split)
        tasks, kept = [], KeptBytes(self._cache / "remembered")
        for one, order in itertools.product(chosen, range(self._orders)):
            group, files = large[one.archive], load_archive(directory / one.archive)
            where = group.index(one)
            told, sandbox, changes = compose(group, where, self._changes, self._machine(), files, kept, order=order)
            tasks.append(Task(told.id, "SWE", Assignment(told, sandbox, changes)))
        return tasks

    def _place(self) -> Path:
        """Where the tasks lie; generated ones are made first."""
        if not self._generated:
            return self._directory if self._directory.is_dir() else self._directory.parent
        directory = self._cache / f"tasks-{self._built}-{_recipe()}"
        with one_at_a_time(self._cache):
            if not directory.is_dir():
                with whole_directory(directory) as unfinished:
                    build_tasks(PACKAGES, self._machine(), unfinished, count=self._built)
        return directory

    def _sandbox(self, instance: Instance, directory: Path) -> Sandbox:
        breaking = instance.patch if instance.breaks else ""
        if not instance.archive and self._server:
            address, token = self._server.replace("{id}", instance.id), os.environ.get("SWEREX_TOKEN", "")
            return RemoteSandbox(address, token=token, limits=self._limits, breaking=breaking)
        if not instance.archive:
            return ContainerSandbox(container_program(), image_of(instance, self._image), self._limits, breaking)
        files = load_archive(directory / instance.archive)
        return BubblewrapSandbox(
            self._machine(), files, "git apply -R /inputs/patch", {"patch": instance.patch.encode()}
        )

    def _machine(self) -> Bubblewrap:
        checked_packages()
        return Bubblewrap(checked_packages(), self._limits)


@lru_cache(maxsize=1)
def checked_packages() -> Path:
    """What sandboxes can import, once it is certain that they run here.

    Raises:
        SandboxUnavailable: they do not.
    """
    packages = sandbox_packages()
    check_bubblewrap(packages)
    return packages


@lru_cache(maxsize=64)
def load_archive(path: Path) -> bytes:
    """A repository, once a process."""
    return path.read_bytes()


def in_split(instances: Sequence[Instance], split: str) -> list[Instance]:
    """The instances of a split: 60% train, 15% validation and the rest test, drawn by their names; in their order."""
    drawn = sorted(instances, key=lambda one: hashlib.sha256(one.id.encode()).digest())
    cuts = (0, round(0.6 * len(drawn)), round(0.75 * len(drawn)), len(drawn))
    place = SPLITS.index(split)
    chosen = {one.id for one in drawn[cuts[place] : cuts[place + 1]]}
    return [one for one in instances if one.id in chosen]


def _split_files(directory: Path) -> dict[str, Path]:
    """Files named after splits."""
    endings = (".jsonl", ".jsonl.gz", ".parquet")
    found = {split: [directory / f"{split}{ending}" for ending in endings] for split in SPLITS}
    return {split: path for split, paths in found.items() for path in paths if path.is_file()}


def _recipe() -> str:
    """Changes with what tasks are made of."""
    here = Path(__file__).parent
    sources = [here / name for name in ("builder.py", "mutations.py", "packages.py", "provision.py")]
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
