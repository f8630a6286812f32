# Any cluster of CPUs: one rank a core. Set CORES to the cores of a node.
GPUS=0
GPU_ORDER=""
CORES=${CORES:-64}
SBATCH_OPTIONS=(--exclusive)
SRUN_OPTIONS=(--cpus-per-task=1 --cpu-bind=cores)
prepare() { export JAX_PLATFORMS=cpu; }
