#!/usr/bin/env bash
# From a fresh clone to a trained student on generated games, on two cores: installs, warms a student up, trains it with
# PivotOPD and prints what that changed. Interrupted, it goes on where it stopped.
#
#   bash launch/quickstart.sh [--workdir=DIR] [--config.KEY=VALUE ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh requirements.txt

# Large pages: page faults cost a third of a step on virtual machines.
export GLIBC_TUNABLES="${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}"
export JAX_COMPILATION_CACHE_DIR="${JAX_COMPILATION_CACHE_DIR:-$PWD/.cache/jax}"
# Kept are also programs that took less than a second to compile: there are many, and a second start waits for each.
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="${JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS:-0}"
# No model is run by transformers; that it finds no PyTorch for one needs no warning.
export TRANSFORMERS_NO_ADVISORY_WARNINGS="${TRANSFORMERS_NO_ADVISORY_WARNINGS:-1}"
exec .venv/bin/python launch/train.py --config=configs/alfworld.py:mini --workdir=runs/quickstart "$@"
