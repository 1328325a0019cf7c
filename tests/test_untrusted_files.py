"""Files from elsewhere are data: nothing of them is unpickled or run, and none leads out of its directory."""

from __future__ import annotations

import ast
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from models.test_huggingface import CONFIG, TOKENIZER, lively

from pivotopd_jax.envs.mapped import RECORDS, STARTS, MappedRecords
from pivotopd_jax.envs.row_files import DataError
from pivotopd_jax.envs.swe import archives
from pivotopd_jax.envs.swe.instances import Instance, as_row, read_instances
from pivotopd_jax.envs.swe.packages import PACKAGES
from pivotopd_jax.models import huggingface
from pivotopd_jax.rollout.replay import Replay

PROJECT = Path(__file__).resolve().parents[1]
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "jsonpickle", "yaml"}
UNSAFE_CALLS = {"eval", "exec", "extract", "extractall", "unpack_archive", "from_pickle", "read_pickle", "to_pickle"}
UNSAFE_OPTIONS = {"allow_pickle", "trust_remote_code", "weights_only"}
"""Options that may only have the one safe value, or none."""
SAFE = {"allow_pickle": False, "trust_remote_code": False, "weights_only": True}


class Trap:
    """Writes a file where it is unpickled."""

    def __init__(self, sprung: Path):
        self.sprung = sprung

    def __reduce__(self) -> Any:
        return Path.write_text, (self.sprung, "sprung")


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Trap]:
    """A trap that has not sprung when the test ends."""
    sprung = tmp_path / "sprung"
    pickle.loads(pickle.dumps(Trap(sprung)))
    assert sprung.exists(), "the trap itself works"
    sprung.unlink()
    yield Trap(sprung)
    assert not sprung.exists()


def unsafe(tree: ast.AST) -> Iterator[str]:
    """What in a program could run what a file holds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            yield from (name for name in names if name.partition(".")[0] in UNSAFE_MODULES)
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            # A module's own exec_module is how a configuration, which is the user's program, is loaded.
            if called in UNSAFE_CALLS:
                yield called
            if called == "load" and ast.unparse(node.func).startswith("torch."):
                yield "torch.load"
            for option in node.keywords:
                safe = isinstance(option.value, ast.Constant) and option.value.value is SAFE.get(option.arg or "")
                if option.arg in UNSAFE_OPTIONS and not safe:
                    yield str(option.arg)


def test_no_program_here_unpickles_or_runs_what_it_reads():
    programs = [path for room in ("pivotopd_jax", "launch", "configs") for path in (PROJECT / room).rglob("*.py")]
    assert len(programs) > 100
    found = {str(path): names for path in programs if (names := list(unsafe(ast.parse(path.read_text()))))}
    # torch's own evaluation mode, of a model for comparison.
    assert {path: names for path, names in found.items() if names != ["eval"] or "peers" not in path} == {}


@pytest.mark.parametrize(
    "program",
    ["import pickle", "from joblib import load", "torch.load(f)", "np.load(f, allow_pickle=True)", "tar.extractall()",
     "AutoModel.from_pretrained(d, trust_remote_code=True)", "np.load(f, allow_pickle=flag)", "eval(text)"],
)  # fmt: skip
def test_what_would_be_unsafe_is_seen(program):
    assert list(unsafe(ast.parse(program)))


def test_a_replay_that_holds_a_pickle_is_refused(tmp_path, trap):
    replay = Replay(tmp_path / "replay")
    replay.keep(0, [])
    objects = np.asarray([trap, None], object)
    for name in ("where", "sizes", "ids"):
        np.savez(tmp_path / "replay" / "step_000000.npz", allow_pickle=True, **{name: objects})
        with pytest.raises(ValueError, match=r"step_000000\.npz is not a file of labels"):
            Replay(tmp_path / "replay").draw(1, 1, seed=0, first=0)


def test_a_bare_pickle_in_the_place_of_arrays_is_refused(tmp_path, trap):
    path = tmp_path / "replay" / "step_000000.npz"
    path.parent.mkdir()
    path.write_bytes(pickle.dumps(trap))
    with pytest.raises(ValueError, match="is not a file of labels"):
        Replay(path.parent).draw(1, 1, seed=0, first=0)
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("where.npy", pickle.dumps(trap))
    with pytest.raises(ValueError, match="is not a file of labels"):
        Replay(path.parent).draw(1, 1, seed=0, first=0)


def test_mapped_records_hold_no_pickle(tmp_path, trap):
    np.save(tmp_path / STARTS, np.asarray([trap], object), allow_pickle=True)
    (tmp_path / RECORDS).write_bytes(b"x")
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        MappedRecords(tmp_path, bytes)


@pytest.fixture
def student(tmp_path: Path) -> Path:
    huggingface.save(tmp_path / "student", CONFIG, lively(), TOKENIZER)
    return tmp_path / "student"


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "training_args.bin", "optimizer.pt", "vocab.pkl"])
def test_pickles_beside_a_student_are_left_alone(student, trap, name):
    (student / name).write_bytes(pickle.dumps(trap))
    assert huggingface.load(student)[0] == CONFIG
    (student / "model.safetensors").write_bytes(pickle.dumps(trap))
    with pytest.raises(ValueError, match="is not a whole safetensors file"):
        huggingface.load(student)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_a_students_own_code_is_not_run(student, tmp_path, file):
    sprung = tmp_path / "sprung"
    (student / "mine.py").write_text(f"open({str(sprung)!r}, 'w').close()\nclass Mine:\n    pass\n")
    content = json.loads((student / file).read_text())
    named = {
        "AutoConfig": "mine.Mine",
        "AutoTokenizer": ["mine.Mine", "mine.Mine"],
        "AutoModelForCausalLM": "mine.Mine",
    }
    (student / file).write_text(json.dumps({**content, "auto_map": named, "tokenizer_class": "Mine"}))
    with suppress(ValueError):  # a tokenizer that only its own code knows is refused
        assert huggingface.load(student)[0] == CONFIG
    assert not sprung.exists()


@pytest.mark.parametrize(
    "name", ["../other/model.safetensors", "/etc/passwd", "a/../model.safetensors", "..", "", "\0", "model.bin"]
)
def test_an_index_leads_to_no_other_directory(student, name):
    index = {"weight_map": {"lm_head.weight": name}}
    (student / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="expected safetensors files beside it"):
        huggingface.load(student)


def test_an_archive_gives_files_of_its_own_only(monkeypatch):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("p-1/good.py", "p-1/../../up.py", "../up.py", "/etc/passwd", "p-1/a/../../../up.py"):
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"x"))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
            member = tarfile.TarInfo(f"p-1/odd{ord(kind)}")
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    monkeypatch.setattr(archives, "_archive", lambda *_: stream.getvalue())
    files = archives.repository_files(PACKAGES[0])
    assert files["good.py"] == b"x"
    assert not [name for name in files if "odd" in name]
    assert not [name for name in files if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts]


@pytest.mark.parametrize(
    ("key", "value"),
    [("archive", "../secret.tar"), ("archive", "/etc/passwd"), ("archive", ".."), ("image_name", "--privileged"),
     ("docker_image", "--volume=/:/host"), ("image_name", "a b"), ("image_name", "a\nb"), ("patch", ["a"])],
)  # fmt: skip
def test_a_task_leads_to_no_other_file_and_gives_a_container_engine_no_options(tmp_path, key, value):
    one = as_row(Instance("a-1", "a", "abc", "It fails.", "", "", ("t::a",), ()))
    (tmp_path / "tasks.jsonl").write_text(json.dumps({**one, key: value}) + "\n")
    with pytest.raises(DataError, match=rf"line 1: {key} is"):
        read_instances(tmp_path / "tasks.jsonl")
