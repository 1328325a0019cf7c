#!/usr/bin/env bash
#SBATCH --job-name=pivotopd
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --output=slurm-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
# Trains one student on the GPUs of several nodes, one process (Slurm task) a GPU; see docs/pods.md.
#
#   sbatch [--nodes=N --ntasks-per-node=GPUS --gpus-per-node=GPUS ..] launch/slurm.sh --config=configs/alfworld.py \
#       --workdir=DIR [--config.KEY=VALUE ..]
#
# To be submitted from the project's directory. DIR and the student's directory lie on a file system that all nodes see.
# Requeued or submitted again, the run goes on from its newest checkpoint. PYTHON names the interpreter.
set -euo pipefail
[[ -f launch/train.py ]] || { echo "slurm: no launch/train.py in $PWD; submit from the project's directory" >&2; exit 1; }
[[ -n ${SLURM_NTASKS:-} ]] || { echo "slurm: this is no Slurm job; start it with sbatch" >&2; exit 1; }
[[ ${1:-} == --config=* ]] || { echo "slurm: the first argument is '${1:-}'; expected --config=configs/NAME.py" >&2; exit 1; }

python="${PYTHON:-.venv/bin/python}"
# Compiled programs are kept between jobs.
export JAX_COMPILATION_CACHE_DIR="${JAX_COMPILATION_CACHE_DIR:-$PWD/.cache/jax}"

# JAX reads from Slurm's variables who takes part. Every task must see all GPUs of its node and takes the one of its
# number, so they are not bound to tasks. When one task dies, srun ends the others.
exec srun --kill-on-bad-exit=1 --gpu-bind=none "$python" launch/train.py --distributed "$1" \
    --config.learner.fsdp="$SLURM_NTASKS" "${@:2}"
