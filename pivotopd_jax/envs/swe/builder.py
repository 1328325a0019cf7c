"""Makes SWE tasks on this machine: a mistake in a small package that its tests catch, and what is wrong in words.

A task is kept only if three times over its right patch makes all tests pass and an empty one does not; tests that do
not come out alike every time are not among them.
"""

from __future__ import annotations

import hashlib
import random
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pivotopd_jax.envs.swe.archives import Package, as_archive, repository_files
from pivotopd_jax.envs.swe.bubblewrap import Bubblewrap, BubblewrapSandbox
from pivotopd_jax.envs.swe.finishing import SUBMIT
from pivotopd_jax.envs.swe.grading import PASSED, is_sound, results, test_command
from pivotopd_jax.envs.swe.instances import Instance, write_instances
from pivotopd_jax.envs.swe.mutations import Mutation, as_patch, mutations
from pivotopd_jax.envs.swe.sandbox import MEBIBYTE, Ran

TRIES = 3
"""How often a task must come out alike."""

MOST_BROKEN = 0.3
"""Share of the tests that a mistake may break; what breaks more is seen at once."""

TASKS = "tasks.jsonl"

Report = Callable[[str], None]


@dataclass(frozen=True)
class Workshop:
    """One package, laid out, with the tests that always pass.

    Attributes:
        package, files: the release and its files.
        sandbox: in which it lies as it was released.
        passing: names of the tests that passed in each of `TRIES` runs.
        seconds: that the quickest of them took.
    """

    package: Package
    files: Mapping[str, bytes]
    sandbox: BubblewrapSandbox
    passing: frozenset[str]
    seconds: float


def archive_name(package: Package) -> str:
    """Where the repository of `package` lies, beside the file of tasks."""
    return f"repositories/{package.label}.tar"


def open_workshop(package: Package, machine: Bubblewrap, cache: Path | None = None) -> Workshop:
    """Fetches and tries a package.

    Raises:
        ValueError: none of its tests passes every time.
    """
    files = repository_files(package, cache)
    sandbox = BubblewrapSandbox(machine, as_archive(files))
    runs = [_run(sandbox, package.tests) for _ in range(TRIES)]
    passing = frozenset.intersection(*(_passed(ran) for ran in runs))
    if not passing:
        raise ValueError(f"no test of {package.label} passes every time: {runs[0].output.head[-400:]}")
    return Workshop(package, files, sandbox, passing, min(ran.seconds for ran in runs))


def possible_mistakes(workshop: Workshop, seed: int) -> list[Mutation]:
    """Mistakes in the package's sources, one a function as long as there are others, in an order fixed by `seed`."""
    found: list[Mutation] = []
    for path, content in sorted(workshop.files.items()):
        if (
            path.endswith(".py")
            and _is_below(path, workshop.package.sources)
            and not _is_below(path, workshop.package.tests)
        ):
            found += mutations(path, content.decode("utf-8", "replace"))
    random.Random(f"{workshop.package.label} {seed}").shuffle(found)
    turn: dict[tuple[str, str], int] = {}
    rounds = []
    for mutation in found:
        place = (mutation.path, mutation.function)
        turn[place] = turn.get(place, -1) + 1
        rounds.append((turn[place], mutation))
    return [mutation for _, mutation in sorted(rounds, key=lambda pair: pair[0])]


def make_task(workshop: Workshop, mutation: Mutation) -> Instance | None:
    """The task of mending `mutation`; None if the tests do not catch it well, or not every time."""
    package, right = workshop.package, workshop.files[mutation.path].decode("utf-8", "replace")
    wrong = mutation.apply(right)
    if not right.endswith("\n"):
        return None
    breaking, patch = as_patch(mutation.path, right, wrong), as_patch(mutation.path, wrong, right)
    sandbox = BubblewrapSandbox(
        workshop.sandbox.machine, workshop.sandbox.files, "git apply /inputs/patch", {"patch": breaking.encode()}
    )
    ran = _run(sandbox, package.tests)
    failing = workshop.passing - _passed(ran)
    if ran.ending != "ended" or not failing or len(failing) > MOST_BROKEN * len(workshop.passing):
        return None
    instance = Instance(
        id=f"{package.label}.{hashlib.sha256(breaking.encode()).hexdigest()[:8]}",
        repo=package.name,
        base_commit=package.sha256[:40],
        statement=statement(package, sorted(failing), _complaint(sandbox, sorted(failing)[:1])),
        patch=patch,
        test_patch="",
        fail_to_pass=tuple(sorted(failing)),
        pass_to_pass=tuple(sorted(workshop.passing - failing)),
        version=package.version,
        archive=archive_name(package),
    )
    return instance if is_sound(instance, sandbox, TRIES) else None


def statement(package: Package, failing: Sequence[str], complaint: str) -> str:
    """What is wrong, told by what fails."""
    shown = "".join(f"\n    {line}" for line in complaint.splitlines())
    count = "One test fails" if len(failing) == 1 else f"{len(failing)} tests fail, the first of them"
    return (
        f"The last change to {package.name} broke something. {count}: {failing[0]}\n{shown}\n\n"
        f"Find the mistake in the program and mend it; the tests are right. They are run by\n"
        f"    python -m pytest -q {' '.join(package.tests)}\n"
        f"When all is well, hand the work in:\n    {SUBMIT}"
    )


def build_tasks(
    packages: Sequence[Package], machine: Bubblewrap, directory: Path, *, count: int, seed: int = 0, workers: int = 1,
    cache: Path | None = None, report: Report = lambda line: None,
) -> list[Instance]:  # fmt: skip
    """Makes `count` tasks, as many of each package as of the others, and writes them with their repositories.

    Args:
        packages: they are taken in this order.
        machine: runs the tests.
        directory: gets `TASKS` and repositories/.
        count: of tasks.
        seed: decides which mistakes are tried.
        workers: sandboxes at once; what comes out does not depend on it.
        cache: directory of archives.
        report: told in one line what is being done.

    Raises:
        ValueError: the packages do not give so many.
    """
    made: list[Instance] = []
    (directory / "repositories").mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(workers) as pool:
        for number, package in enumerate(packages):
            wanted = -(-(count - len(made)) // (len(packages) - number))
            if not wanted:
                break
            workshop = open_workshop(package, machine, cache)
            (directory / archive_name(package)).write_bytes(as_archive(workshop.files))
            found = list(islice(_tasks(workshop, seed, workers, pool), wanted))
            made += found
            report(f"{package.label}: {len(found)} tasks, {len(workshop.passing)} tests in {workshop.seconds:.1f} s")
    if len(made) < count:
        raise ValueError(f"{len(packages)} packages gave {len(made)} tasks, {count} are wanted; ask for fewer")
    write_instances(directory / TASKS, made)
    return made


def _tasks(workshop: Workshop, seed: int, workers: int, pool: ThreadPoolExecutor) -> Iterator[Instance]:
    """The tasks that come of the package's possible mistakes, in their order."""
    mistakes = possible_mistakes(workshop, seed)
    for first in range(0, len(mistakes), workers):
        made = pool.map(lambda mutation: make_task(workshop, mutation), mistakes[first : first + workers])
        yield from filter(None, made)


def _run(sandbox: BubblewrapSandbox, tests: Sequence[str]) -> Ran:
    return sandbox.run(sandbox.start, test_command(tests), shown=4 * MEBIBYTE)


def _passed(ran: Ran) -> frozenset[str]:
    return frozenset(test for test, outcome in results(ran.output.head).items() if outcome in PASSED)


def _complaint(sandbox: BubblewrapSandbox, tests: Sequence[str]) -> str:
    """What pytest says of a failing test: the line of the test, and the reason; at most a dozen lines."""
    command = f"python -m pytest -q --tb=short -p no:cacheprovider {' '.join(map(shlex.quote, tests))}"
    told = sandbox.run(sandbox.start, command).output.head
    reasons = [line[1:].strip() for line in told.splitlines() if line.startswith("E ")]
    called = re.search(r"^\S+:\d+: in test\w*\n    (.+)$", told, re.MULTILINE)
    words = "\n".join(([called[1].strip()] if called else []) + reasons[:12])
    return re.sub(r" at 0x[0-9a-f]+", "", words)


def _is_below(path: str, places: Sequence[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)
