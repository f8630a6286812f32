#!/bin/bash
# Submit a run that writes a restart before its time is over, queues itself again and goes on, until it is done.
#
#     scripts/slurm/submit.sh MACHINE NODES FILE.toml OUTPUT [options of sbatch: --time=02:00:00 --account=...]
#
# MACHINE is one of machines/*.sh. The experiment needs [output.restart]; RESTART names its file if it is not OUTPUT/restart.nc.
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ $# -lt 4 ]; then
    sed -n 's/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | sed -n '2,6p' >&2
    exit 2
fi
machine=$1 nodes=$2 file=$3 output=$4
shift 4
if [ ! -r "$here/machines/$machine.sh" ]; then
    echo "submit.sh: $machine is none of $(cd "$here/machines" && ls | sed 's/\.sh$//' | tr '\n' ' '); copy one of these and adapt it." >&2
    exit 2
fi
. "$here/machines/$machine.sh"
per_node=$((GPUS > 0 ? GPUS : CORES))
export SWMODEL_SLURM=$here MACHINE=$machine
exec sbatch --nodes="$nodes" --ntasks-per-node="$per_node" "${SBATCH_OPTIONS[@]}" "$@" "$here/run.sbatch" "$file" "$output"
