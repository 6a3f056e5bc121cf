# Every task of the project; `make help` lists them. A task is a line or three: what is longer lives in scripts/.
# Needs make and Python 3.11 or newer with venv (Debian, Ubuntu: sudo apt-get install -y make python3-venv).

PYTHON ?= python3.11 python3.12 python3.13 python3
NEWEST_PYTHON ?= python3.13 python3.12 python3
BIN := .venv/bin
SMOKE_BIN := .venv-smoke/bin
TYPED := $(wildcard control_plane workers cli tests benchmarks examples scripts)
ARGS ?=
ONLY ?= lease_calls drain wakeup publish scale recovery idle

.DEFAULT_GOAL := help
.PHONY: help dev test test-slow test-faults smoke lint format bench bench-check bench-page bench-choices docs proto proto-check proto-baseline clean

help: ## List the tasks
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | while IFS="$$(printf '\t')" read -r task text; do printf '  %-16s %s\n' "$$task" "$$text"; done

dev: .venv/.installed ## Run everything in one process tree with a demo load; flags in ARGS='...'
	@$(BIN)/slicelease dev $(ARGS)

test: .venv/.installed ## Run the whole suite on real servers (installs them as root or in CI)
	@scripts/install_servers.sh
	$(BIN)/pytest -q -m "not slow" $(ARGS)

test-faults: .venv/.installed ## Run twenty seeds of the full simulation, half a minute each; other seeds in ARGS='--seed S --seeds N'
	$(BIN)/python -m tests.simulation --seeds 20 $(ARGS)

test-slow: .venv/.installed ## Run what `test` leaves out: the large models, the long differential run
	@scripts/install_servers.sh
	$(BIN)/pytest -q -m slow -o faulthandler_timeout=0 $(ARGS)

smoke: .venv-smoke/.installed ## Build the wheel, install it on the newest Python here; tests without servers, a short demo
	$(SMOKE_BIN)/pip install -q --disable-pip-version-check --no-deps --force-reinstall .
	$(SMOKE_BIN)/pytest -q -m "not slow and not servers" $(wildcard tests/unit tests/property tests/contract)
	$(SMOKE_BIN)/slicelease dev --tenants 20 --messages 500 --seed 7 --seconds 60 --json

lint: .venv/.installed ## Check style, types, import rules and the wire contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict $(TYPED)
	$(BIN)/lint-imports
	$(BIN)/buf lint
	@mkdir -p build && $(BIN)/buf build -o build/protos.binpb
	$(BIN)/buf breaking build/protos.binpb --against protos/baseline.binpb

format: .venv/.installed ## Format the code and apply the safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.installed-bench ## Measure the whole system beside its peers, some minutes; some of it only by ONLY='drain publish'
	@scripts/install_servers.sh
	@set -e; for name in $(ONLY); do $(BIN)/python -m benchmarks.$$name; done

bench-check: .venv/.installed ## Hold calls, frames and writes a slice to benchmarks/budget.json
	@scripts/install_servers.sh
	$(BIN)/python -m benchmarks.budget

bench-page: .venv/.installed-bench ## Make docs/benchmarks.md and its plots from the records of `make bench`
	$(BIN)/python -m benchmarks.page

bench-choices: .venv/.installed-bench ## Measure the libraries chosen against their alternatives, as docs/adr cites them
	@set -e; for choice in amqp grpc_from_trio ledger_calls embedded_valkey weights; do $(BIN)/python -m benchmarks.choices.$$choice; done

docs: .venv/.installed ## Fill the generated parts of the pages from the tables in the code
	$(BIN)/python scripts/generate_docs.py

proto: .venv/.installed ## Generate the Python code of the protos
	$(BIN)/python scripts/generate_protos.py

proto-check: .venv/.installed ## Check that the generated code is fresh
	$(BIN)/python scripts/generate_protos.py --check

proto-baseline: .venv/.installed ## Take the protos as they are for the contract that `lint` compares with
	$(BIN)/buf build --exclude-source-info -o protos/baseline.binpb

clean: ## Remove environments, caches and build results
	rm -rf .venv .venv-smoke build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.installed: pyproject.toml
	@scripts/make_venv.sh .venv $(PYTHON)

.venv/.installed-bench: .venv/.installed
	$(BIN)/pip install -q --disable-pip-version-check -e '.[bench]'
	@touch $@

.venv-smoke/.installed: pyproject.toml
	@scripts/make_venv.sh .venv-smoke $(NEWEST_PYTHON)
