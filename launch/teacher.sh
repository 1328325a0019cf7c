#!/usr/bin/env bash
# Serves a teacher with vLLM and says when it answers; the server ends with this script (Ctrl-C).
#
#   bash launch/teacher.sh qwen3-30b-a3b     Qwen3-30B-A3B on 2 GPUs
#   bash launch/teacher.sh qwen3.5-122b-a10b Qwen3.5-122B-A10B on 8 GPUs
#   bash launch/teacher.sh DIR_OR_HUB_ID [vLLM options]
#
# HOST (127.0.0.1) and PORT (8000): where it listens. Another HOST needs VLLM_API_KEY, and a network you trust: vLLM asks
# for the key under /v1 only. CONTEXT (32768): tokens. PYTHON: an interpreter with vLLM. WAIT_SECONDS (1800): for it to load.
set -euo pipefail

HOST="${HOST:-127.0.0.1}" PORT="${PORT:-8000}" CONTEXT="${CONTEXT:-32768}" WAIT_SECONDS="${WAIT_SECONDS:-1800}"
fail() { echo "teacher: $*" >&2; exit 1; }
[[ $# -ge 1 ]] || fail "no model given; expected qwen3-30b-a3b, qwen3.5-122b-a10b, a directory or a hub id"

case "$1" in
    qwen3-30b-a3b) model=Qwen/Qwen3-30B-A3B options=(--tensor-parallel-size 2) ;;
    qwen3.5-122b-a10b) model=Qwen/Qwen3.5-122B-A10B options=(--tensor-parallel-size 8) ;;
    *) model="$1" options=() ;;
esac
shift
[[ $HOST == 127.0.0.1 || $HOST == localhost || -n ${VLLM_API_KEY:-} ]] ||
    fail "HOST=$HOST can be reached from outside; set VLLM_API_KEY, or leave HOST at 127.0.0.1"
python="${PYTHON:-python}"
"$python" -c 'import vllm' 2>/dev/null || fail "$python has no vLLM; install requirements-pod.txt or set PYTHON"

"$python" -m vllm.entrypoints.openai.api_server --model "$model" --served-model-name teacher \
    --host "$HOST" --port "$PORT" --max-model-len "$CONTEXT" ${options[@]+"${options[@]}"} "$@" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT

healthy() { "$python" -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=5)' "$1" 2>/dev/null; }
for ((second = 0; second < WAIT_SECONDS; second += 2)); do
    kill -0 "$server" 2>/dev/null || fail "the server ended while loading $model; its last lines above say why"
    if healthy "http://$HOST:$PORT/health"; then
        echo "teacher: $model answers; --config.teacher=served --config.teacher.base_url=http://$HOST:$PORT/v1"
        wait "$server"
        exit
    fi
    sleep 2
done
fail "$model did not answer within $WAIT_SECONDS s"
