# Every target does its own set-up. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
OLDEST := .venv-oldest
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
OLDEST_INSTALLED := $(OLDEST)/.installed
GPU_CODEGEN := .venv-gpu-codegen
GPU := .venv-gpu
ARGS ?=

.PHONY: help install serve summarize-demo test test-kernels test-jobs test-clients check lint test-jax-oldest check-gpu-codegen gpu-check bench wheel-test docs protocol format clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1\t/' | expand -t 18

install: $(INSTALLED)  ## build .venv with everything the other targets need

$(INSTALLED): pyproject.toml setup.py scripts/install.sh scripts/environment.sh scripts/find_python.sh
	@scripts/install.sh $(VENV)

serve: install  ## serve the embedded model on 127.0.0.1:8000; make serve ARGS="--port 9000 --policy fcfs"
	@exec $(BIN)/andes-jax serve $(ARGS)

summarize-demo: install  ## summarize three sample documents, one of them Chinese, with the embedded model
	@$(BIN)/andes-jax summarize examples/documents --output build/summaries.md --words 60 --frequency-penalty 0.3 --chunk-tokens 400 --chunk-overlap 64 $(ARGS)
	@cat build/summaries.md

test: check wheel-test  ## everything that must hold before a commit: check, the wheel, all tests
	$(BIN)/python -m pytest -q $(ARGS)

check: lint  ## format, lint, types, architecture, documentation
	$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_documentation.py

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: install  ## rewrite docs/settings.md and the modules in WORKSPACE.md from the sources
	$(BIN)/python scripts/write_docs.py

protocol: install  ## rewrite the modules that andes_jax/remote/protocol/andes.proto generates
	$(BIN)/python scripts/write_protocol.py

test-jax-oldest: $(OLDEST_INSTALLED)  ## all tests on the oldest jax that is supported, in .venv-oldest
	$(OLDEST)/bin/python -m pytest -q $(ARGS)

$(OLDEST_INSTALLED): pyproject.toml setup.py scripts/install.sh scripts/environment.sh scripts/find_python.sh
	@scripts/install.sh $(OLDEST) jax==0.11.2 jaxlib==0.11.2

test-kernels: install  ## all cases of the interpreted GPU kernels; make test runs a quarter of them
	$(BIN)/python -m pytest -q -m "slow or not slow" tests/kernels

test-jobs: install  ## kill jobs at seventy moments, cut their journals, and take their server away; ten minutes
	$(BIN)/python -m pytest -q -s -m slow tests/end_to_end/test_batch_job.py tests/end_to_end/test_summary_job.py $(ARGS)

test-clients: install  ## streams as curl, nghttp, h2load and Chromium see them; installs those (Debian, as root)
	@scripts/install_clients.sh
	$(BIN)/python -m pytest -q -m slow tests/clients $(ARGS)

check-gpu-codegen: install  ## compile GPU kernels and a decode step, without a GPU, and judge them; in .venv-gpu-codegen (200 MB)
	@scripts/gpu_codegen/install.sh $(GPU_CODEGEN) "$$($(BIN)/python -c 'import jax; print(jax.__version__)')"
	@$(GPU_CODEGEN)/bin/python -m scripts.gpu_codegen $(ARGS)

gpu-check: install  ## check the kernels on this machine's GPU, ten minutes; in .venv-gpu unless jax sees the GPU already
	@python="$$(scripts/gpu_check/install.sh $(GPU) $(BIN)/python)" && "$$python" -m scripts.gpu_check $(ARGS)

bench: install  ## measure speed; results go to tests/bench/results
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.bench $(ARGS)
	$(BIN)/python -m tests.bench.host_time

wheel-test: install  ## build the wheel, install it elsewhere, start it from an empty folder
	@scripts/wheel_test.sh $(BIN)/python

clean:  ## remove what the targets above made, the environments included
	rm -rf $(VENV) $(OLDEST) $(GPU_CODEGEN) $(GPU) build dist *.egg-info .pytest_cache .hypothesis .ruff_cache .mypy_cache
	find andes_jax kernels_pallas server tests -name __pycache__ -type d -prune -exec rm -rf {} +
