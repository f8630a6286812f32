# `make` lists what there is. Needs python3, g++ and make; everything else goes into $(VENV).
PYTHON ?= python3
VENV ?= .venv
# bundled: Open MPI from PyPI; system: the mpicc and mpirun on PATH; none: serial. Empty: as the last time, else bundled
MPI ?=
# auto: where nvidia-smi lists a GPU and there is a CUDA toolkit; yes, no. Empty: as the last time, else auto
GPU ?=
RANKS ?= 2
OUTPUT ?= output/tohoku_2011
# a folder of NAME.csv with observed gauge records, for the figure of the demo
OBSERVATIONS ?=
# what `make test` passes to pytest: TESTS="-k halo tests/parallel"
TESTS ?=
# which figures `make verify` prints, as CASE="channel_order kelvin_error"; CASE=all prints all of them
CASE ?=
# what `make bench` passes on: BENCH="--only step --repeats 9"
BENCH ?=
# what `make mutants` passes on: MUTANTS="--list", MUTANTS="--module swmodel/fields/field.py"
MUTANTS ?= --sample 10
# what `make gpu` passes on: GPUCASE="coast run", GPUCASE="ab2 --target a100"
GPUCASE ?=
# what `make gallery` passes on: GALLERY="--only double_gyre"
GALLERY ?=
# what `make faults` passes on: FAULTS="--only kills --count 10"
FAULTS ?=

# mpirun refuses root (containers, CI) and more ranks than cores unless told
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif
export OMPI_MCA_rmaps_base_oversubscribe := 1
export PRTE_MCA_rmaps_default_mapping_policy := :oversubscribe
BIN = $(VENV)/bin

.PHONY: help setup demo quick test docs verify faults bench gpu mutants dist gallery types lint clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14
	@echo 'Variables: PYTHON=python3.12  MPI=bundled|system|none  GPU=auto|yes|no  RANKS=2'
	@echo '           OBSERVATIONS=folder  TESTS="-k halo"  VENV=.venv'

setup:  ## virtual environment, dependencies, MPI, mpi4jax; what is done is not done again
	@command -v $(PYTHON) >/dev/null || { echo "setup: $(PYTHON) is not on PATH; install Python 3.11 to 3.13, or name yours: make setup PYTHON=..."; exit 1; }
	@$(PYTHON) scripts/setup.py --venv "$(VENV)" --mpi "$(MPI)" --gpu "$(GPU)"

demo: setup  ## the 2011 Tohoku tsunami on RANKS ranks, with maps and gauges in output/
	@$$(test -x $(BIN)/mpirun && echo $(BIN)/mpirun -n $(RANKS)) $(BIN)/swmodel run experiments/tohoku_2011/tohoku.toml \
		--output $(OUTPUT) --overwrite --plot $(if $(OBSERVATIONS),--observations "$(OBSERVATIONS)")

test: setup  ## the whole test suite: serial, then under mpirun on 2 and 4 ranks
	@$(BIN)/python scripts/run_tests.py $(TESTS)

quick: setup  ## what to run before each commit: three minutes on two cores
	@$(BIN)/python scripts/run_tests.py --quick $(TESTS)

verify: setup  ## the published cases at full size, and what takes long, on 1, 2, 4 and 6 ranks; CASE=name prints one figure, name=value
	@$(if $(CASE),,$(PYTHON) scripts/setup.py --venv "$(VENV)" --extra types)
	@$(BIN)/python $(if $(CASE),-m tests.verification.measures $(CASE),scripts/run_tests.py --verify $(TESTS))

faults: setup  ## break runs on purpose: kills, signals, full disks, flipped bits, bad input, a million steps
	@$(BIN)/python -m tests.faults.run $(FAULTS)

bench: setup  ## every figure that was asked for, side by side with its peer: within 45 minutes on 2 cores
	@$(BIN)/python benchmarks/run.py $(BENCH)

gpu: setup  ## compile programs for an H100 that is not here: bytes, launches, registers, spills; GPUCASE="coast run"
	@$(BIN)/python benchmarks/gpu/run.py $(GPUCASE)

mutants: setup  ## break the model on purpose, place by place, and list what no test notices: MUTANTS="--module halo"
	@$(BIN)/python scripts/mutate.py $(MUTANTS)

docs: setup  ## the documentation site, output/docs/index.html; a warning or a dead link is an error
	@$(PYTHON) scripts/setup.py --venv "$(VENV)" --extra docs
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going -q -b html docs output/docs
	@$(BIN)/python scripts/check_site.py output/docs
	@echo "docs: open output/docs/index.html"

dist: setup  ## the wheel and the source distribution, in dist/
	@$(BIN)/python -m hatchling build -d dist

gallery: setup  ## every figure of the gallery, with its commands, and docs/gallery/index.md; about half an hour
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/gallery.py $(GALLERY)

types: setup  ## check the types of the modules that pyproject.toml lists, by basedpyright
	@$(PYTHON) scripts/setup.py --venv "$(VENV)" --extra types
	@$(BIN)/python -m basedpyright --project pyproject.toml --pythonpath $(BIN)/python

lint:  ## style, by ruff (pip install ruff)
	@command -v ruff >/dev/null || { echo "lint: ruff is not on PATH; pip install ruff"; exit 1; }
	@ruff check . && ruff format --check .

clean:  ## remove the environment and build leftovers; output/ stays
	rm -rf "$(VENV)" build dist .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
