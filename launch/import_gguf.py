"""Makes a student's directory of a GGUF file, the format of llama.cpp: `import_gguf.py FILE DIRECTORY`.

Llamas and dense Qwen3s, whatever their quantisation; the weights are written as float32. Needs `pip install gguf`.
"""

from __future__ import annotations

from pathlib import Path

import jax

from pivotopd_jax import command_line
from pivotopd_jax.models import gguf_file, huggingface


def main(arguments: list[str]) -> None:
    if len(arguments) != 2:
        raise ValueError(f"import_gguf.py was told {' '.join(arguments) or 'nothing'!r}; expected FILE DIRECTORY")
    file, directory = arguments
    if Path(directory).exists():
        raise ValueError(f"{directory} is there already; name a directory that is to be made")
    config, _, params, tokenizer = gguf_file.load(file)
    huggingface.save(directory, config, params, tokenizer)
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    print(f"{config.model_type}, {count / 1e6:.1f}M parameters; --config.student={directory}")


if __name__ == "__main__":
    command_line.run(main, positional=True)
