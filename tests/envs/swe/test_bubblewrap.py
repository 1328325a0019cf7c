"""Commands in a sandbox: what they can do, and each way of getting out that is tried."""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from swe_repository import archive

from pivotopd_jax.envs.swe.bubblewrap import EMPTY, LONGEST_COMMAND, BubblewrapSandbox, check_bubblewrap
from pivotopd_jax.envs.swe.cgroups import group_parents
from pivotopd_jax.envs.swe.sandbox import SandboxUnavailable
from pivotopd_jax.envs.swe.seccomp import MACHINES


def running(words: str) -> list[str]:
    """Ids of processes of this host whose command line holds `words`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if words in line and int(process.name) != os.getpid():
            found.append(process.name)
    return found


def test_a_command_leads_from_one_tree_to_another(sandbox):
    first = sandbox.run(sandbox.start, "ls; sed -i 's/a - b/a + b/' adding.py; exit 3")
    assert (first.output.head, first.status, first.ending) == ("adding.py\ntests\n", 3, "ended")
    again = sandbox.run(first.tree, "grep return adding.py")
    assert again.output.head == "    return a + b\n    return 2 * a\n"
    assert again.tree == first.tree != sandbox.start
    # The tree from which it went is still what it was.
    assert "a - b" in sandbox.run(sandbox.start, "cat adding.py").output.head


def test_equal_files_are_equal_trees(machine):
    trees = [machine.run(EMPTY, f"sleep {pause}; echo one > a; mkdir b; touch b/c").tree for pause in (0, 0.1)]
    assert trees[0] == trees[1]


def test_a_repository_is_laid_out_alike_every_time(machine):
    """Its git does not say when and where: what is remembered of a start holds for every later one."""
    files = archive({"a.py": "A = 1\n", "b/c.py": "C = 3\n"})
    starts = [BubblewrapSandbox(machine, files, prepare=f"sleep {pause}").start for pause in (0, 1.1)]
    assert starts[0] == starts[1]
    assert machine.run(starts[0], "git status --short; git diff; git stash").output.head == "No local changes to save\n"


def test_the_repository_has_one_commit_and_no_history(sandbox):
    ran = sandbox.run(
        sandbox.start,
        "git log --oneline --all | wc -l; git reflog | wc -l; git tag | wc -l; git stash list | wc -l; git status -s; "
        "git count-objects -v | grep -E '^(alternate|in-pack)'; git rev-list --objects --all | wc -l; "
        "git fsck --unreachable --no-reflogs 2>/dev/null | wc -l",
    )
    # Objects: the commit, two directories, two files.
    assert ran.output.head.split() == ["1", "1", "0", "0", "in-pack:", "0", "5", "0"]


def test_history_that_came_with_the_files_is_gone(machine):
    secret = (
        "git init -q .; echo the fix > a; git add a; git commit -qm y; git tag z; echo broken > a; git commit -qam x"
    )
    old = machine.run(EMPTY, secret).tree
    assert "the fix" in machine.run(old, "git show HEAD~1:a").output.head
    fresh = BubblewrapSandbox(machine, old)
    ran = fresh.run(fresh.start, "cat a; git show HEAD~1:a; git log --all --oneline; git tag; grep -r 'the fix' .git")
    assert "the fix" not in ran.output.head.replace("grep -r 'the fix'", "")
    assert ran.output.head.startswith("broken")


def test_what_changed_is_told_as_a_diff(sandbox):
    assert sandbox.difference(sandbox.start) == b""
    ran = sandbox.run(
        sandbox.start,
        "sed -i 's/a - b/a + b/' adding.py; printf 'caf\\xe9' > latin.txt; git add -A; git commit -qm x; rm -rf .git",
    )
    patch = sandbox.difference(ran.tree)
    assert b"-    return a - b\n+    return a + b\n" in patch
    assert b"+caf\xe9\n" in patch
    back = sandbox.run(sandbox.start, "git apply /inputs/patch && cat adding.py latin.txt", files={"patch": patch})
    assert "a + b" in back.output.head
    assert back.output.head.endswith("caf�")


def test_a_repository_within_the_repository_is_told_as_its_files(sandbox):
    ran = sandbox.run(sandbox.start, "mkdir sub; cd sub; git init -q .; echo x > a; git add a; git commit -qm sub")
    patch = sandbox.difference(ran.tree)
    assert b"+++ b/sub/a\n@@ -0,0 +1 @@\n+x\n" in patch
    assert b"Subproject" not in patch


def test_who_and_what_is_seen(machine):
    ran = machine.run(EMPTY, "id -u; ls /proc | grep -c '^[0-9]'; ls /; grep CapEff /proc/self/status; hostname")
    uid, processes, *rest = ran.output.head.split("\n")
    assert uid == "1000"
    assert int(processes) <= 7
    assert rest[:-3] == sorted(
        ["bin", "dev", "etc", "inputs", "lib", "lib64", "opt", "proc", "sbin", "testbed", "tmp", "usr"]
    )
    assert rest[-3:] == ["CapEff:\t0000000000000000", "sandbox", ""]


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/shadow", "ls /root /home /var /run /sys /boot /work", "cat /proc/1/root/etc/shadow",
        "echo x > /usr/x", "echo x > /x", "echo x > /etc/passwd", "echo x > /opt/packages/x", "echo x > /dev/x",
        "unshare -Ur id", "unshare -m id", "mount -t tmpfs none /tmp", "mknod /tmp/disk b 8 0", "chroot / id",
        "ls /usr/local/bin/* /usr/local/lib/*",
    ],
)  # fmt: skip
def test_the_host_is_out_of_reach(machine, command):
    ran = machine.run(EMPTY, command)
    assert ran.status not in (0, -1)
    assert ran.ending == "ended"


def test_the_hosts_environment_is_out_of_reach(machine, monkeypatch):
    monkeypatch.setenv("PIVOTOPD_SECRET", "hidden-in-the-host")
    ran = machine.run(EMPTY, "env; cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/*/cmdline | tr '\\0' ' '")
    assert "PYTHONHASHSEED=0" in ran.output.head
    assert "hidden-in-the-host" not in ran.output.head + ran.output.tail
    assert str(Path.home()) not in ran.output.head


def test_the_loopback_of_the_host_is_out_of_reach(machine):
    """A server on this host, on a port and on an abstract socket: the same lines reach it from outside only."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0pivotopd-{os.getpid()}")
        abstract.listen()
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        tries = (
            f"exec 5<>/dev/tcp/127.0.0.1/{port}",
            f"python -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\0pivotopd-{os.getpid()}')\"",
            "exec 5<>/dev/tcp/1.1.1.1/53",
        )
        for command in tries:
            ran = machine.run(EMPTY, command)
            assert ran.status not in (0, -1)
            assert re.search(r"refused|unreachable", ran.output.head)
    devices = machine.run(EMPTY, "cat /proc/net/dev | tail -n +3 | cut -d: -f1").output.head.split()
    assert devices == ["lo"]


KEYS = """
import ctypes, sys
call = ctypes.CDLL(None).syscall
text = ctypes.create_string_buffer(6)
add_key, keyctl, session, join, search, read = {numbers}, -3, 1, 10, 11
if "host" in sys.argv:
    call(keyctl, join, None)
    call(add_key, b"user", b"pivotopd", b"sesame", 6, session)
call(keyctl, read, call(keyctl, search, session, b"user", b"pivotopd", 0), text, 6)
print(text.value)
"""


def test_keys_of_the_host_are_out_of_reach(machine):
    """A key in the session of whoever starts the sandbox is read by the same lines outside."""
    if platform.machine() not in MACHINES:
        pytest.skip(f"no numbers of system calls for {platform.machine()}")
    refused = MACHINES[platform.machine()].refused
    code = KEYS.format(numbers=f"{refused[0]}, {refused[2]}")
    script = (
        f"import pathlib\nfrom pivotopd_jax.envs.swe.bubblewrap import *\nexec({code!r})\n"
        f"machine = Bubblewrap(pathlib.Path({str(machine.packages)!r}))\n"
        f"print(machine.run(EMPTY, 'python - <<X\\n' + {code!r} + 'X').output.head)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "host"], cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True,
        check=True,
    )  # fmt: skip
    if done.stdout.splitlines()[0] != "b'sesame'":
        pytest.skip("the kernel gives this process no keys")
    assert done.stdout.splitlines() == ["b'sesame'", "b''", ""]


def test_a_fork_bomb_ends(machine):
    ran = machine.run(EMPTY, ":(){ :|:& };:; sleep 1; echo survived")
    assert ran.ending == "ended"
    python = (
        "import os, time\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        time.sleep(0.05)\n"
    )
    ran = machine.run(EMPTY, f'python -c "{python}"', seconds=2)
    assert (ran.status, ran.ending) == (137, "timeout")
    assert machine.run(EMPTY, "echo fine").output.head == "fine\n"


@pytest.mark.parametrize("place", [".", "/tmp", "/dev/shm"])
def test_a_full_disk_is_its_own(machine, place):
    ran = machine.run(EMPTY, f"head -c 900M /dev/zero | split -b 1M - {place}/x; rm -f {place}/x*; echo ok > kept")
    assert "No space left on device" in ran.output.head
    assert machine.run(ran.tree, "cat kept").output.head == "ok\n"


def test_a_file_beyond_all_bounds(machine):
    assert machine.run(EMPTY, "truncate -s 1T big").status != 0


def test_memory_is_bounded(machine):
    assert "MemoryError" in machine.run(EMPTY, "python -c 'bytearray(2 << 30)'").output.head


@pytest.mark.skipif(not group_parents(), reason="control groups cannot be written to here")
def test_memory_is_bounded_for_all_processes_together(machine):
    hold = "import os, time\nfor i in range(6):\n    if not os.fork(): a = bytearray(200 << 20); time.sleep(3)\n"
    ran = machine.run(EMPTY, f'python -c "{hold}"; sleep 2; cat /proc/*/status | grep VmRSS', seconds=5)
    held = sum(int(kilobytes) for kilobytes in re.findall(r"VmRSS:\s+(\d+)", ran.output.head))
    assert held < 520 * 1024
    assert [group for parent in group_parents() for group in parent.glob(f"pivotopd-{os.getpid()}-*")] == []


def test_much_output_is_cut_in_the_middle(machine):
    ran = machine.run(EMPTY, "echo first; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo last", shown=1000)
    assert (ran.status, ran.ending) == (0, "ended")
    assert ran.output.head == "first\n" + 494 * "x"
    assert ran.output.tail == 494 * "x" + "\nlast\n"
    assert ran.output.missing == 200_000_000 + 6 + 6 - 1000


def test_bytes_that_are_no_text(machine):
    assert machine.run(EMPTY, "printf 'a\\xff\\xfe\\x00b\\xc3\\xa9'").output.head == "a��\0bé"


def test_nothing_is_left_running(machine):
    command = "(setsid nohup sleep 98765 >/dev/null 2>&1 &); setsid -f sleep 98765; sleep 98765 & disown; echo done"
    ran = machine.run(EMPTY, command)
    assert (ran.output.head, ran.ending) == ("done\n", "ended")
    assert running("sleep 98765") == []


def test_time_runs_out(machine):
    ran = machine.run(EMPTY, "echo kept > a; echo shown; setsid -f sleep 98764; trap '' TERM; sleep 98764", seconds=1)
    assert (ran.output.head, ran.status, ran.ending) == ("shown\n", 137, "timeout")
    assert running("sleep 98764") == []
    assert machine.run(ran.tree, "cat a").output.head == "kept\n"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("rm -f a; kill -KILL -1", "its processes were killed"),
        ("rm -f a; pkill -STOP -f runner; sleep 98763", "it did not come back in time"),
    ],
)  # fmt: skip
def test_a_sandbox_that_is_destroyed_from_inside(machine, command, why):
    """What its processes do to the script that serves them ends the command, and changes nothing."""
    before = machine.run(EMPTY, "echo kept > a").tree
    ran = machine.run(before, command, seconds=1)
    assert (ran.status, ran.ending) == (-1, "lost")
    assert why in ran.why
    assert ran.tree == before
    assert running("sleep 98763") == []


@pytest.mark.parametrize(
    ("forged", "why"), [("echo nonsense", "nonsense"), ("echo 0; cat x /tmp/y x", "takes more than 32 MiB")]
)
def test_a_forged_report(machine, forged, why):
    """The pipe that the new tree comes through is root's, where we are root; else what comes through it is checked."""
    before = machine.run(EMPTY, "echo kept > a; head -c 14M /dev/zero > x").tree
    pipe = "/proc/$(ps -o ppid= $PPID | tr -d ' ')/fd/3"
    ran = machine.run(before, f"rm a; head -c 14M /dev/zero > /tmp/y; exec 3>{pipe} || exit 9; {{ {forged}; }} >&3")
    if os.geteuid() == 0:
        assert "Permission denied" in ran.output.head
    else:
        assert (ran.ending, ran.tree) == ("lost", before)
        assert why in ran.why


def test_a_tree_that_cannot_be_read(machine):
    """What a command closes to itself is opened again, so that it is kept."""
    tree = machine.run(EMPTY, "mkdir -p a/b; echo kept > a/b/c; chmod 000 a/b/c a/b a; mkfifo pipe").tree
    assert machine.run(tree, "cat a/b/c; test -p pipe && echo pipe").output.head == "kept\npipe\n"


def test_what_a_tree_may_hold(machine):
    """Links that lead out of it are kept, and lead nowhere; names may be any bytes."""
    command = "ln -s /etc/shadow a; ln -s / b; mkdir d; ln -s ../../.. d/c; touch -- -rf $'\\xff\\n'"
    tree = machine.run(EMPTY, command).tree
    names = machine.run(tree, "find . -print0 | sort -z").output.head.split("\0")
    assert names == [".", "./-rf", "./a", "./b", "./d", "./d/c", "./\ufffd\n", ""]
    shown = machine.run(tree, "cat a b/etc/shadow d/c/etc/shadow").output.head.splitlines()
    assert len(shown) == 3
    assert all(line.endswith("No such file or directory") for line in shown)


@pytest.mark.parametrize(
    "command",
    [
        "for i in `seq 60`; do truncate -s 15M s$i; done",
        "python -c \"for i in range(80000): open(str(i), 'w').close()\"",
    ],
    ids=["holes", "empty files"],
)
def test_a_tree_that_takes_no_disk_and_cannot_be_kept(machine, command):
    ran = machine.run(EMPTY, command)
    assert (ran.status, ran.ending, ran.tree) == (-1, "lost", EMPTY)
    assert ran.why == "the working tree takes more than 32 MiB"


def test_no_caches_are_kept(machine):
    files = archive({"test_a.py": "def test_a(): pass\n"})
    tree = machine.run(files, "PYTHONDONTWRITEBYTECODE= pytest -q -p cacheprovider; ls -a").tree
    shown = machine.run(tree, "ls -A").output.head
    assert shown == "test_a.py\n"


def test_a_python_that_dies_takes_its_sandboxes_with_it(machine, tmp_path):
    code = (
        "import pathlib\nfrom pivotopd_jax.envs.swe.bubblewrap import *\n"
        f"Bubblewrap(pathlib.Path({str(machine.packages)!r})).run(EMPTY, 'sleep 98762')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3])
    deadline = time.monotonic() + 60
    while not running("bash -c sleep 98762") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running("sleep 98762")
    process.kill()
    process.wait()
    while running("sleep 98762") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running("sleep 98762") == []


def test_many_at_once(machine):
    """A limit of one sandbox is not used up by another."""

    def crowd(number: int) -> str:
        return machine.run(EMPTY, f"for i in `seq 30`; do sleep 1 & done; echo {number}").output.head

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(crowd, range(6))) == [f"{number}\n" for number in range(6)]


def test_commands_that_cannot_be_passed_on(machine):
    with pytest.raises(ValueError, match=rf"a command of 100001 bytes; expected at most {LONGEST_COMMAND}"):
        machine.run(EMPTY, "#" * (LONGEST_COMMAND + 1))
    with pytest.raises(ValueError, match="none of them a zero byte"):
        machine.run(EMPTY, "echo \0")
    assert machine.run(EMPTY, "echo '\ud800'").output.head == "?\n"


def test_a_repository_that_cannot_be_laid_out(machine):
    with pytest.raises(SandboxUnavailable, match="a repository cannot be laid out: nothing of the kind"):
        _ = BubblewrapSandbox(machine, EMPTY, prepare="echo nothing of the kind; exit 4").start


def test_a_machine_without_it(tmp_path, monkeypatch):
    with pytest.raises(SandboxUnavailable, match=r"is not a directory that everyone may enter"):
        check_bubblewrap(tmp_path / "nothing")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match=r"bwrap is not installed; apt-get install bubblewrap"):
        check_bubblewrap(tmp_path)
