#!/usr/bin/env bash
# Makes .venv and installs the project with a requirements file; returns at once when nothing has changed since.
#
#   bash launch/setup.sh [requirements.txt | requirements-dev.txt]
#
# PYTHON names the interpreter (default python3.11). Safe to interrupt and to run twice at once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

requirements="${1:-requirements.txt}"
[[ -f $requirements ]] || { echo "setup: no file $requirements; expected requirements.txt or requirements-dev.txt" >&2; exit 1; }

# A stamp says what was installed from, the project's place included: .venv remembers absolute paths.
fingerprint() { { pwd -P; cat requirements.txt "$1" pyproject.toml launch/setup.sh; } | cksum; }
stamp() { echo ".venv/.installed-$(basename "$1")"; }
installed() { [[ -f $(stamp "$1") && $(<"$(stamp "$1")") == "$(fingerprint "$1")" ]]; }

if installed "$requirements"; then exit 0; fi

mkdir -p .venv
if command -v flock >/dev/null; then
    exec 9>.venv/.lock
    flock 9
    if installed "$requirements"; then exit 0; fi
fi

echo "Installing $requirements into .venv (minutes, first time only) ..."
if [[ ! -f .venv/.made ]]; then
    python="${PYTHON:-python3.11}"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        { echo "setup: $python is missing or older than Python 3.11; set PYTHON to one that is not" >&2; exit 1; }
    "$python" -m venv .venv
    touch .venv/.made
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1
.venv/bin/python -m pip install -qq -r "$requirements"
.venv/bin/python -m pip install -qq --no-deps -e .

# Written last, and by renaming: an interrupted installation leaves no stamp. Every file includes the core.
for file in requirements.txt "$requirements"; do
    fingerprint "$file" >.venv/.installing
    mv .venv/.installing "$(stamp "$file")"
done
