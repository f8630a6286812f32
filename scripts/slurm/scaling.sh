#!/bin/bash
# Submit the jobs of a scaling study: one for each number of ranks, all of one kind.
#
#     scripts/slurm/scaling.sh MACHINE strong|weak [-s NXxNY] [-r "1 2 4 8"] [-o FOLDER] [options of sbatch]
#
# strong: NXxNY cells in all (16384x16384). weak: NXxNY cells a rank (8192x8192 a GPU, 2048x2048 a core). Then
#
#     python scripts/slurm/scaling_figure.py FOLDER/*.log -o scaling.png
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fail() {
    echo "scaling.sh: $1" >&2
    exit 2
}
[ $# -ge 2 ] || fail "give a machine and a kind: scaling.sh perlmutter strong"
machine=$1 kind=$2
shift 2
[ -r "$here/machines/$machine.sh" ] || fail "$machine is none of $(cd "$here/machines" && ls | sed 's/\.sh$//' | tr '\n' ' ')"
[ "$kind" = strong ] || [ "$kind" = weak ] || fail "$kind is neither strong nor weak"
. "$here/machines/$machine.sh"
per_node=$((GPUS > 0 ? GPUS : CORES))
size="" folder="scaling-$machine" list=""
while [ $# -gt 1 ]; do
    case $1 in
        -s) size=$2 ;;
        -r) list=$2 ;;
        -o) folder=$2 ;;
        *) break ;;
    esac
    shift 2
done
[ -n "$list" ] || list="1 2 4 $per_node $((2 * per_node)) $((4 * per_node)) $((8 * per_node))"
if [ -z "$size" ]; then
    size=16384x16384
    [ "$kind" = strong ] || size=$([ "$GPUS" -gt 0 ] && echo 8192x8192 || echo 2048x2048)
fi
mkdir -p "$folder"

# PYxPX of RANKS: the most square one, with px >= py
layout() {
    local py=1 k
    for ((k = 1; k * k <= $1; k++)); do [ $(($1 % k)) = 0 ] && py=$k; done
    echo "${py}x$(($1 / py))"
}

export SWMODEL_SLURM=$here MACHINE=$machine
for ranks in $(tr ' ' '\n' <<<"$list" | sort -nu); do
    tiles=$(layout "$ranks")
    cells=$size
    [ "$kind" = weak ] && cells=$((${size%x*} * ${tiles#*x}))x$((${size#*x} * ${tiles%x*}))
    nodes=$(((ranks + per_node - 1) / per_node))
    sbatch --nodes="$nodes" --ntasks="$ranks" "${SBATCH_OPTIONS[@]}" "$@" --job-name="$kind-$ranks" \
        --output="$folder/$kind-$ranks.log" "$here/scaling.sbatch" "$kind" "$ranks" "$cells" "$tiles"
done
