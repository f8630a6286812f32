# A DGX (A100 or H100): 8 GPUs a node, two sockets, NVSwitch; Open MPI with UCX and PMIx.
GPUS=8
GPU_ORDER="0 1 2 3 4 5 6 7"
SBATCH_OPTIONS=(--exclusive)
SRUN_OPTIONS=(--mpi=pmix --gpus-per-node=8 --gpu-bind=none --cpus-per-task=14 --cpu-bind=cores)
prepare() {
    export UCX_TLS=rc,sm,cuda_copy,cuda_ipc,gdr_copy
    export UCX_MEMTYPE_CACHE=n  # JAX's memory is not allocated by the CUDA calls that UCX watches
}
