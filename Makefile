# Needs Python 3.11 or newer and make; everything else is set up by deploy/bootstrap.py, once.
PYTHON ?= python3
RUN = .venv/bin
WORKERS ?= 2
# Tests with servers wait for them for half of their time.
STACK_WORKERS ?= 4
HOURS ?= 1
WHEELS ?= dist
.DEFAULT_GOAL := help

# Tests start many processes: without bytecode on the disk, each would compile all modules that it imports.
export PYTHONDONTWRITEBYTECODE :=

FAST_TESTS = tests/house tests/unit tests/histories
# The longest files first: whole files go to a worker each, and the last ones shall be short.
STACK_TESTS = tests/chaos tests/costs tests/e2e tests/browser tests/integration tests/contract tests/simulation
SHORT = -m "not long and not thorough"
export TRACKSIDE_TEST_TIMES ?= $(CURDIR)/.pytest_cache/times
PROTOS = $(wildcard libs/summaries/src/trackside/summaries/event_files/protos/*.proto)

.PHONY: help demo check test long times count bench soak up down wheels lint format types layers unit stack-tests env env-without-torch protos clean forget-times

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: env ## run a hyper-parameter search end to end: Kafka, Postgres, all services, replay
	@$(RUN)/trackside demo

check: env-without-torch forget-times ## lint, types, layers, house and unit tests: no servers, no torch; before each commit
	@$(MAKE) --no-print-directory --jobs=2 lint types layers unit

test: env forget-times ## every promise once, on a real Kafka and Postgres; a quarter of an hour
	@$(MAKE) --no-print-directory --jobs=2 lint types layers unit
	@$(MAKE) --no-print-directory stack-tests

long: env ## all other tests, in pieces; ONLY=worker: the pieces of that name or folder
	@$(RUN)/python -m tests.long --only "$(ONLY)"

times: ## where the time of the last run of tests went
	@$(RUN)/python -m tests.times $(TRACKSIDE_TEST_TIMES)

count: ## how large the product and its tests are, by purpose
	@python3 deploy/count.py

bench: env ## measure the floors of docs/ and print one table
	@PYTHONPATH=deploy $(RUN)/python -m bench $(ARGS)

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
	@$(RUN)/pytest -q -n $(WORKERS) --dist worksteal $(SHORT) $(FAST_TESTS)

stack-tests:
	@$(RUN)/pytest -q -n $(STACK_WORKERS) --dist loadfile --no-loadscope-reorder $(SHORT) $(STACK_TESTS)

forget-times:
	@rm -rf "$(TRACKSIDE_TEST_TIMES)"

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
