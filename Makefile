# Needs Python 3.11 or newer and make; everything else is set up by deploy/bootstrap.py, once.
PYTHON ?= python3
RUN = .venv/bin
WORKERS ?= 2
CHAOS_RUNS ?= 5
HOURS ?= 1
WHEELS ?= dist
.DEFAULT_GOAL := help

# Tests start many processes: without bytecode on the disk, each would compile all modules that it imports.
export PYTHONDONTWRITEBYTECODE :=

FAST_TESTS = $(wildcard tests/house tests/unit tests/histories)
STACK_TESTS = $(wildcard tests/simulation tests/contract tests/integration)
PROTOS = $(wildcard libs/summaries/src/trackside/summaries/event_files/protos/*.proto)
WHOLE_TESTS = $(wildcard tests/e2e tests/chaos tests/browser)
PYTEST_EXIT_OK = || [ $$? -eq 5 ]  # 5: the folder has no test yet

.PHONY: help demo test check bench chaos soak up down wheels lint format types layers unit thorough stack-tests whole-tests env env-without-torch protos clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: env ## run a hyper-parameter search end to end: Kafka, Postgres, all services, replay
	@$(RUN)/trackside demo

test: env lint types layers unit thorough stack-tests whole-tests ## everything; what CI runs

check: env-without-torch ## lint, types, layers, house and unit tests; needs no torch
	@$(MAKE) --no-print-directory --jobs=2 lint types layers unit

bench: env ## measure the floors of docs/ and print one table
	@PYTHONPATH=deploy $(RUN)/python -m bench $(ARGS)

chaos: env ## kill real processes, longer than `make test` does: CHAOS_RUNS searches; TRACKSIDE_CHAOS_SECURE=1: on secure stacks
	@TRACKSIDE_CHAOS_RUNS=$(CHAOS_RUNS) $(RUN)/pytest -q -x tests/chaos tests/e2e/test_rolling_upgrade.py tests/unit/simulation

soak: env ## all kinds of experiments for HOURS with a fault a minute, a report at the end; ARGS=--help: more options
	@$(RUN)/python -m tests.soak --hours $(HOURS) $(ARGS)

up: env ## start a stack that stays
	@$(RUN)/trackside up

down: env-without-torch ## stop it
	@$(RUN)/trackside down

wheels: ## build the wheel of Trackside into dist/, for `pip install dist/trackside-*.whl`
	@$(PYTHON) deploy/build_wheel.py $(WHEELS)

lint:
	@$(RUN)/ruff check
	@$(RUN)/ruff format --check

layers:
	@$(RUN)/lint-imports

types:
	@$(RUN)/mypy

unit:
	@$(RUN)/pytest -q -n $(WORKERS) --dist worksteal -m "not thorough" $(FAST_TESTS)

thorough:
	@$(RUN)/pytest -q -n $(WORKERS) --dist worksteal -m thorough $(FAST_TESTS)

stack-tests:
	@$(if $(STACK_TESTS),$(RUN)/pytest -q -n $(WORKERS) $(STACK_TESTS) $(PYTEST_EXIT_OK))

whole-tests:
	@$(if $(WHOLE_TESTS),$(RUN)/pytest -q -x $(WHOLE_TESTS) $(PYTEST_EXIT_OK))

format: env-without-torch ## format the code and fix what ruff can fix
	@$(RUN)/ruff check --fix
	@$(RUN)/ruff format

env: ## set up .venv (with torch)
	@$(PYTHON) deploy/bootstrap.py

env-without-torch:
	@$(PYTHON) deploy/bootstrap.py --without-torch

protos: env ## generate the modules of the .proto files again
	@cd libs/summaries/src && ../../../$(RUN)/python -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. \
	  $(PROTOS:libs/summaries/src/%=%)

clean: ## remove .venv and caches, not .trackside/
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
