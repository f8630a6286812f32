#!/bin/bash
# Run a command with the one GPU that lies nearest to this rank's cores: srun ... bind_gpu.sh swmodel run ...
# GPU_ORDER lists the GPUs of a node by local rank (machines/*.sh); without it the command runs as it is.
if [ -n "${GPU_ORDER:-}" ]; then
    read -r -a order <<<"$GPU_ORDER"
    export CUDA_VISIBLE_DEVICES=${order[$((${SLURM_LOCALID:-0} % ${#order[@]}))]}
    # swmodel, which sees several ranks and one GPU, would take it for shared and not reserve its memory
    export XLA_PYTHON_CLIENT_PREALLOCATE=${XLA_PYTHON_CLIENT_PREALLOCATE:-true}
fi
exec "$@"
