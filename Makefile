# On a fresh machine `make predict` and `make test` do all the set-up themselves; nothing else is needed
# than make, Python 3.11 or newer with venv, and a package index that pip can reach.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help predict test check lint house names scoreboard bench nightly zoo docs format clean

PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --retries 5 --timeout 60 --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest -n $(JOBS)
ON := --on v100 --on a100 --on h100 --on rtx-4090

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---- set-up: each stamp is renewed when pyproject.toml changes, so a second call installs nothing

# An index may fail for a moment while it serves hundreds of megabytes.
define install
for attempt in 1 2 3; do \
  $(PIP) $(1) && break; \
  if [ $$attempt = 3 ]; then exit 1; fi; \
  echo "pip failed; trying again ($$attempt of 2)"; sleep 5; \
done
endef

.venv/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "steptime needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 1; }
	@$(PYTHON) -m venv .venv \
	  || { echo "Python's venv module is missing; on Debian: apt-get install python3-venv"; rm -rf .venv; exit 1; }
	@touch $@

.venv/.core: .venv/.created pyproject.toml
	@echo "installing steptime into .venv"
	@$(call install,--editable .)
	@touch $@

.venv/.test: .venv/.core
	@echo "installing the test extras into .venv (torch and its companions: a few minutes)"
	@$(call install,--editable '.[test]')
	@touch $@

# ---- use

predict: .venv/.core ## install, then predict training of ResNet-50 and BERT-large on four GPUs
	$(BIN)/steptime compare resnet50 $(ON) --batch 64 --precision amp-fp16
	$(BIN)/steptime compare bert-large $(ON) --batch 16 --seq-len 128 --precision amp-fp16

# ---- check

test: lint ## install with test extras, then run everything that CI runs
	$(PYTEST)

check: lint house ## under a minute: format, lint, types, stairs, cards, names, shelves

lint: .venv/.test ## format, lint, types and stairs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

house: .venv/.test ## the checks that keep the house
	$(PYTEST) tests/house tests/shelves

names: .venv/.test ## print what docs/glossary.toml lacks, ready to paste
	@PYTHONPATH=tests $(BIN)/python -m house.names

format: .venv/.test ## let ruff lay out the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

nightly: .venv/.test ## everything, slow tests and many more random examples included
	HYPOTHESIS_PROFILE=nightly $(PYTEST) -m 'slow or not slow'

# ---- generated pages and data

scoreboard: .venv/.test ## judge the predictions by measurements and write docs/accuracy.md
	$(BIN)/steptime validate --write docs/accuracy.md

bench: .venv/.test ## how fast is steptime itself
	for file in benchmarks/*.py; do OMP_NUM_THREADS=1 $(BIN)/python $$file; done

zoo: .venv/.test ## capture the bundled workloads again
	@$(call install,diffusers)
	$(BIN)/python zoo/capture_all.py

docs: scoreboard ## renew the generated pages and run what the documents tell a reader to type
	$(PYTEST) tests/house/test_documents.py

clean: ## remove the environment and every cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
