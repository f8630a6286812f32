# A Perlmutter-like machine: 4 A100 a node, one socket of 64 cores with 2 threads each, Cray MPICH, Slingshot.
GPUS=4
# The GPU of the local rank 0, 1, 2, 3: cores 0-15 are nearest to GPU 3, and so on down.
GPU_ORDER="3 2 1 0"
# --gpu-bind=none leaves all GPUs of the node visible, or ranks of a node cannot copy from GPU to GPU; bind_gpu.sh gives each its own.
SBATCH_OPTIONS=(--constraint=gpu --qos=regular --exclusive)
SRUN_OPTIONS=(--gpus-per-node=4 --gpu-bind=none --cpus-per-task=32 --cpu-bind=cores)
prepare() {
    command -v module >/dev/null && module load cudatoolkit craype-accel-nvidia80
    export MPICH_GPU_SUPPORT_ENABLED=1  # messages from GPU to GPU; swmodel asks for them where it is 1
    export SLURM_CPU_BIND=cores
}
