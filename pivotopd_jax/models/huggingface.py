"""Reads and writes students as HuggingFace directories, the format transformers and vLLM also load.

Matrices lie there transposed, `[out, in]`, and the experts of a layer one by one, as `mlp.experts.0.gate_proj.weight`.
So are published checkpoints, and so does transformers 5 write them, though in memory it holds two stacks,
`gate_up_proj` and `down_proj`. Files that hold such stacks are not read.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import huggingface_hub
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
import transformers
from flax import nnx
from jax.experimental import multihost_utils
from jax.typing import DTypeLike
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from pivotopd_jax.files import parse_json
from pivotopd_jax.models.qwen3 import Qwen3Config, abstract, parameter_name

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
DOWNLOADED = ("*.safetensors", "*.json", "*.jinja", "*.txt")
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")

Shardings = Callable[[nnx.State], nnx.State]
"""From the shapes of the parameters to a tree of their shardings."""


def load(
    source: str | Path, *, dtype: DTypeLike = jnp.float32, shardings: Shardings | None = None
) -> tuple[Qwen3Config, nnx.GraphDef, nnx.State, PreTrainedTokenizerBase]:
    """Loads a Qwen3, Qwen3-MoE or Llama model and its tokenizer.

    Only safetensors files are opened, never pickles, and no code from the directory is run.

    Args:
        source: a local directory, or the id of a model on huggingface.co ("Qwen/Qwen3-1.7B"), which is downloaded.
        dtype: of the parameters, whatever the files hold.
        shardings: where the parameters go, for example `partial(qwen3.shardings, mesh=mesh)`; every device is then
            given its own part only. Without it everything goes to the default device.

    Returns:
        The configuration, the pair `(graphdef, params)` as from `qwen3.split`, and the tokenizer.

    Raises:
        FileNotFoundError: there is no such directory or model, or it lacks a file.
        ValueError: the configuration is not supported, a file is damaged, or tensors are missing, unexpected or of
            another shape.
    """
    directory = _find(source)
    config = Qwen3Config.from_dict(_read_json(directory / "config.json"))
    tensors = _open_tensors(directory)
    _check_counts(directory, config, tensors)  # before transformers, which reads the configuration, too
    tokenizer = _load_tokenizer(directory)
    _check_vocabulary(config, tokenizer)
    graphdef, params = assemble(directory, config, tensors, dtype=dtype, shardings=shardings)
    return config, graphdef, params, tokenizer


def assemble(
    source: str | Path,
    config: Qwen3Config,
    tensors: Mapping[str, Any],
    *,
    dtype: DTypeLike = jnp.float32,
    shardings: Shardings | None = None,
) -> tuple[nnx.GraphDef, nnx.State]:
    """A model of `config` from `tensors`, under HuggingFace's names, each like a slice of a safetensors file.

    Args:
        source: where they come from, for messages.
        config: of the model.
        tensors: have `get_shape()` and are read by indexing.
        dtype: as for `load`.
        shardings: as for `load`.

    Raises:
        ValueError: tensors are missing, unexpected or of another shape.
    """
    _check_counts(source, config, tensors)
    graphdef, shapes = abstract(config, dtype)
    _check_tensors(source, config, shapes, tensors)
    return graphdef, _read_params(shapes, tensors, None if shardings is None else shardings(shapes))


def save(directory: str | Path, config: Qwen3Config, params: nnx.State, tokenizer: PreTrainedTokenizerBase) -> None:
    """Writes a directory that transformers and vLLM load unchanged.

    It is written beside its destination and then renamed, so that `directory` never holds half a model; what was there
    before is replaced. Of many processes the first one writes; where `params` are spread over the devices of several,
    all must call this, and none returns before it is written.

    Args:
        directory: where to; parents are made.
        config: of the model.
        params: as from `qwen3.split`, possibly sharded.
        tokenizer: saved along, with its chat template; names the end, padding and start tokens.

    Raises:
        ValueError: the tokenizer has more tokens than the model.
    """
    _check_vocabulary(config, tokenizer)
    tensors = dict(_hf_tensors(params))
    if jax.process_index() == 0:
        with replacing(Path(directory)) as unfinished:
            safetensors.numpy.save_file(tensors, unfinished / SINGLE_FILE, metadata={"format": "pt"})
            _write_configs(unfinished, config, tokenizer, dtype=str(tensors["model.norm.weight"].dtype))
            tokenizer.save_pretrained(unfinished)
    if any(isinstance(leaf, jax.Array) and not leaf.is_fully_addressable for leaf in jax.tree.leaves(params)):
        multihost_utils.sync_global_devices(f"saved {directory}")


def _find(source: str | Path) -> Path:
    """The local directory of `source`, downloaded if need be."""
    if Path(source).is_dir():
        return Path(source)
    if not HUB_ID.fullmatch(str(source)):
        raise FileNotFoundError(f"no model directory at {source}")
    try:
        return Path(huggingface_hub.snapshot_download(str(source), allow_patterns=list(DOWNLOADED)))
    except (OSError, ValueError) as error:
        raise FileNotFoundError(
            f"{source} is not a directory here, and no model of that name could be downloaded from huggingface.co: "
            f"{error}"
        ) from error


def _require(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} has no {path.name}; a HuggingFace model directory is expected")
    return path


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(_require(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}); get it again") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds {content!r:.80}; expected an object")
    return content


def _check_counts(source: str | Path, config: Qwen3Config, tensors: Mapping[str, Any]) -> None:
    """Finds out that there are far too many layers or experts before any of so many is made."""
    most = max(config.num_layers, config.moe.num_experts if config.moe else 0)
    if most > max(len(tensors), 100):
        raise ValueError(
            f"the configuration in {source} has {most} layers or experts, its files {len(tensors)} tensors"
        )


def _check_vocabulary(config: Qwen3Config, tokenizer: PreTrainedTokenizerBase) -> None:
    if len(tokenizer) > config.vocab_size:
        raise ValueError(f"the tokenizer has {len(tokenizer)} tokens, the model only {config.vocab_size}")


def _load_tokenizer(directory: Path) -> PreTrainedTokenizerBase:
    # Without this file transformers would return an empty tokenizer and say nothing.
    _require(directory / "tokenizer.json")
    try:
        return AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
    except Exception as error:  # transformers and tokenizers raise anything
        words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ValueError(f"{directory} has a tokenizer that cannot be read ({words}); get its files again") from error


def _open_tensors(directory: Path) -> Mapping[str, Any]:
    """Lazily read slices of every tensor in the directory, by name."""
    if (directory / INDEX_FILE).is_file():
        listed = _read_json(directory / INDEX_FILE).get("weight_map")
        files = sorted({str(name) for name in listed.values()}) if isinstance(listed, dict) else []
        if not files or any(Path(name).name != name or Path(name).suffix != ".safetensors" for name in files):
            raise ValueError(
                f"{directory / INDEX_FILE} names {files!r:.200} in its weight_map; expected safetensors files beside it"
            )
    else:
        files = [SINGLE_FILE]
    missing = [name for name in files if not (directory / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{directory} has no {_some(missing)}; only safetensors files are opened")
    tensors: dict[str, Any] = {}
    for name in files:
        tensors.update(_open_file(directory / name))
    return tensors


def _open_file(path: Path) -> Mapping[str, Any]:
    try:
        handle = safetensors.safe_open(path, framework="np")
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from error
    names = handle.keys()
    return {name: handle.get_slice(name) for name in names}


def _check_tensors(source: str | Path, config: Qwen3Config, shapes: nnx.State, tensors: Mapping[str, Any]) -> None:
    expected = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(shapes):
        name = parameter_name(path)
        shape = leaf.shape[1:] if _is_stack(name) else leaf.shape
        expected |= dict.fromkeys(_hf_names(name, leaf.shape), shape[::-1] if _is_transposed(name) else shape)
    # Some published checkpoints with tied embeddings hold a copy of them under this name.
    ignored = {"lm_head.weight"} if config.tie_embeddings else set()
    wrong = [
        f"{name} {tuple(tensors[name].get_shape())}, expected {shape}"
        for name, shape in expected.items()
        if name in tensors and tuple(tensors[name].get_shape()) != shape
    ]
    problems = {
        "missing": sorted(expected.keys() - tensors.keys()),
        "unexpected": sorted(tensors.keys() - expected.keys() - ignored),
        "of another shape": wrong,
    }
    found = [f"{problem}: {_some(names)}" for problem, names in problems.items() if names]
    if found:
        raise ValueError(f"the tensors in {source} do not fit its configuration; {'; '.join(found)}")


def _some(names: Sequence[str], limit: int = 5) -> str:
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + rest


def _hf_names(name: str, shape: tuple[int, ...]) -> list[str]:
    """The tensors that a parameter is made of: one, or one for each expert of a stack."""
    if name == "lm_head":
        return ["lm_head.weight"]
    if not _is_stack(name):
        return [f"model.{name}.weight"]
    layer, kind = name.rsplit(".", 1)
    return [f"model.{layer}.{expert}.{kind}.weight" for expert in range(shape[0])]


def _is_stack(name: str) -> bool:
    return ".experts." in name


def _is_transposed(name: str) -> bool:
    """Whether HuggingFace stores this parameter as `[out, in]` and we as `[in, out]`."""
    return name.endswith(("_proj", ".gate", "lm_head"))


def _read_params(shapes: nnx.State, tensors: Mapping[str, Any], shardings: nnx.State | None) -> nnx.State:
    def read(path: tuple[Any, ...], leaf: jax.ShapeDtypeStruct, sharding: jax.sharding.Sharding) -> jax.Array:
        name = parameter_name(path)
        names = _hf_names(name, leaf.shape)

        def part_of(tensor: Any, index: Any) -> np.ndarray:
            values = tensor[index[::-1]].T if _is_transposed(name) else tensor[index]
            return values.astype(leaf.dtype)

        def part(index: Any) -> np.ndarray:
            if not _is_stack(name):
                return part_of(tensors[names[0]], index)
            return np.stack([part_of(tensors[expert], index[1:]) for expert in names[index[0]]])

        return jax.make_array_from_callback(leaf.shape, sharding, part)

    if shardings is None:
        here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        shardings = jax.tree.map(lambda _: here, shapes)
    return jax.tree_util.tree_map_with_path(read, shapes, shardings)


def _hf_tensors(params: nnx.State) -> Iterator[tuple[str, np.ndarray]]:
    for path, array in jax.tree_util.tree_leaves_with_path(params):
        name = parameter_name(path)
        values = to_host(array)
        parts = values if _is_stack(name) else [values]
        for hf_name, part in zip(_hf_names(name, values.shape), parts, strict=True):
            yield hf_name, np.ascontiguousarray(part.T) if _is_transposed(name) else part


def to_host(array: jax.Array | np.ndarray) -> np.ndarray:
    """The whole array, also if its parts are spread over the devices of many processes."""
    if not isinstance(array, jax.Array) or array.is_fully_addressable:
        return np.asarray(array)
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


@contextmanager
def replacing(directory: Path) -> Iterator[Path]:
    """An empty directory that takes the place of `directory` once the block has ended without an error."""
    directory = directory.absolute()
    unfinished, previous = (directory.with_name(f".{directory.name}.{state}") for state in ("unfinished", "previous"))
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        shutil.rmtree(previous, ignore_errors=True)
        if directory.exists():
            directory.rename(previous)
        unfinished.rename(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    shutil.rmtree(previous, ignore_errors=True)


def _write_configs(directory: Path, config: Qwen3Config, tokenizer: PreTrainedTokenizerBase, *, dtype: str) -> None:
    special = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    version = {"transformers_version": transformers.__version__}
    # transformers 4 and vLLM read the first name of the dtype, transformers 5 the second.
    model = {**config.to_dict(), "torch_dtype": dtype, "dtype": dtype, **special, **version}
    _write_json(directory / "config.json", model)
    named = {key: value for key, value in special.items() if value is not None}
    _write_json(directory / "generation_config.json", {**named, **version})


def _write_json(path: Path, contents: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(contents, indent=2) + "\n", encoding="utf-8")
