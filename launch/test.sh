#!/usr/bin/env bash
# Every check: lint, format, types, tests.
#
#   bash launch/test.sh [--slow] [pytest arguments]     --slow runs the tests marked slow too
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh requirements-dev.txt

# Compiled programs are kept between runs; two cores are enough, and nothing is fetched.
export JAX_COMPILATION_CACHE_DIR="${JAX_COMPILATION_CACHE_DIR:-$PWD/.cache/jax}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" TOKENIZERS_PARALLELISM=false MPLBACKEND=Agg
export HF_HUB_OFFLINE=1 PYRIGHT_PYTHON_IGNORE_WARNINGS=1

.venv/bin/python -m ruff check --quiet .
.venv/bin/python -m ruff format --check --quiet .
.venv/bin/python -m pyright --pythonpath .venv/bin/python
# The whole suite is shared out over the cores; a few tests are done sooner without.
workers=()
if [[ $# -eq 0 || $* == --slow ]]; then workers=(--numprocesses=2 --dist=loadscope); fi
exec .venv/bin/python -m pytest -q "${workers[@]}" "$@"
