"""Stands in for `docker`: images are directories, and what runs in them runs in bubblewrap."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PLACE = Path(__file__).resolve().parent
WITHOUT_VALUE = {"--rm", "--interactive"}


def run(arguments: list[str]) -> int:
    options: dict[str, str] = {}
    while arguments[0].startswith("--"):
        name = arguments.pop(0)
        options[name] = "" if name in WITHOUT_VALUE else arguments.pop(0)
    image, *command = arguments
    if not (PLACE / "images" / image).is_dir():
        print(f"Unable to find image '{image}' locally", file=sys.stderr)
        return 125
    files = PLACE / "containers" / options["--name"]
    shutil.copytree(PLACE / "images" / image, files, symlinks=True)
    line = [
        "bwrap", "--unshare-all", "--as-pid-1", "--die-with-parent", "--uid", "0", "--gid", "0", "--ro-bind", "/usr",
        "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
        "--ro-bind-try", "/etc/alternatives", "/etc/alternatives", "--proc", "/proc", "--dev", "/dev",
        "--tmpfs", "/tmp",
        "--bind", str(files), options["--workdir"], "--chdir", options["--workdir"],
        "--symlink", "/usr/bin/python3", "/opt/bin/python", "--setenv", "PATH", "/opt/bin:/usr/bin:/bin",
    ]  # fmt: skip
    done = subprocess.run([*line, *command], check=False)
    if "--rm" in options:
        shutil.rmtree(files)
    (PLACE / "log").open("a").write(" ".join([*options, "|", image]) + "\n")
    return done.returncode


def main(verb: str, *arguments: str) -> int:
    if verb == "run":
        return run(list(arguments))
    if verb == "commit":
        shutil.copytree(PLACE / "containers" / arguments[0], PLACE / "images" / f"of-{arguments[0]}", symlinks=True)
        print(f"of-{arguments[0]}")
    if verb == "rm":
        shutil.rmtree(PLACE / "containers" / arguments[-1], ignore_errors=True)
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(*sys.argv[1:]))
