"""Source archives of the package index: fetched by pip, checked by their hash, kept, and laid out as repositories."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pivotopd_jax.envs.swe.provision import pip
from pivotopd_jax.files import user_cache, whole_directory

MOST_BYTES = 1_000_000
"""Larger files of an archive are data that no test of ours needs."""


@dataclass(frozen=True)
class Package:
    """A release of a pure-Python package whose archive holds its tests.

    Attributes:
        name, version: on the package index.
        sha256: of its source archive.
        licence: of the package.
        sources: files and directories in which mistakes are made.
        tests: files and directories that pytest is given.
        left_out: files that steer pytest by plugins which are not there.
    """

    name: str
    version: str
    sha256: str
    licence: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name and version in one word."""
        return f"{self.name}-{self.version}"


class ArchiveError(ValueError):
    """An archive that is not the one it should be."""


def repository_files(package: Package, cache: Path | None = None) -> dict[str, bytes]:
    """The files of a release by their path, without what building and packing left in it.

    Args:
        package: which one.
        cache: directory in which archives are kept; None for the user's own cache.

    Raises:
        ArchiveError: the archive has another hash.
        SandboxUnavailable: pip could not fetch it.
    """
    with tarfile.open(fileobj=io.BytesIO(_archive(package, cache or user_cache() / "sdists"))) as tar:
        found = {}
        for member in tar:
            path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
            if member.isfile() and member.size <= MOST_BYTES and _belongs(path) and str(path) not in package.left_out:
                file = tar.extractfile(member)
                assert file
                found[str(path)] = file.read()
    return found


def as_archive(files: Mapping[str, bytes]) -> bytes:
    """A tar archive of `files`; the same files make the same bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def _belongs(path: PurePosixPath) -> bool:
    left = {"..", "__pycache__", "build", "dist", "PKG-INFO"}
    return not left & set(path.parts) and not any(part.endswith(".egg-info") for part in path.parts)


def _archive(package: Package, cache: Path) -> bytes:
    directory = cache / package.label
    if not directory.is_dir():
        with whole_directory(directory) as unfinished:
            # pip runs the package's own build to learn its name, so the hash is checked before that, too.
            wanted = unfinished / "wanted.txt"
            wanted.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n")
            pip(
                "download",
                "--no-deps",
                "--no-binary=:all:",
                "--require-hashes",
                f"--dest={unfinished}",
                f"--requirement={wanted}",
            )
            wanted.unlink()
    (path,) = directory.iterdir()
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != package.sha256:
        raise ArchiveError(f"{path} has the sha256 {found}, not {package.sha256}; remove {directory} to fetch it again")
    return content
