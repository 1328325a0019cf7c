#!/usr/bin/env bash
# Installs the peers that `launch/bench.py --suite=peers` measures, each into an environment of its own.
#
#   bash launch/peers.sh [tunix|trl|all] [DIRECTORY]     default: all, below .venv-peers
#
# tunix is google-tunix on JAX; trl is TRL with transformers and torch. uv resolves them where pip does not come to an
# end; it is taken from PATH, or installed into the directory. PYTHON names the interpreter (default python3.11).
set -euo pipefail

which="${1:-all}" directory="${2:-$(dirname "${BASH_SOURCE[0]}")/../.venv-peers}" python="${PYTHON:-python3.11}"
case "$which" in
    tunix | trl) peers=("$which") ;;
    all) peers=(tunix trl) ;;
    *) echo "peers: no peer '$which'; expected tunix, trl or all" >&2; exit 1 ;;
esac
mkdir -p "$directory"

uv="$(command -v uv || true)"
if [[ -z $uv ]]; then
    uv="$directory/uv/bin/uv"
    [[ -x $uv ]] || { "$python" -m venv "$directory/uv"; "$directory/uv/bin/python" -m pip install -qq uv; }
fi

for peer in "${peers[@]}"; do
    case "$peer" in
        tunix) packages=('google-tunix==0.1.7') ;;
        trl) packages=('trl==1.16.0' 'transformers==5.24.0' 'torch==2.13.0') ;;
    esac
    echo "Installing ${packages[*]} into $directory/$peer ..."
    "$uv" venv --quiet --allow-existing --python "$python" "$directory/$peer"
    "$uv" pip install --quiet --python "$directory/$peer/bin/python" "${packages[@]}"
done
