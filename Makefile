# `make run` builds vic, indexes the sample files in data/ and asks questions about them. `make test` runs every test.
# `make help` lists the other targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash

export VIC_MODELS_DIR := $(CURDIR)/models/cache
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
BIN := $(TARGET)/release
# Settings of the daemon for the sample files: its own data directory (.vic) and any free port.
SAMPLE := VIC_DATA_DIR=$(or $(VIC_DATA_DIR),$(CURDIR)/.vic) VIC_LISTEN=$(or $(VIC_LISTEN),127.0.0.1:0) PATH="$(BIN):$$PATH"

.PHONY: help
help: ## Lists the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: run
run: build models ## Builds vic, indexes data/ and asks a few questions about it
	@$(SAMPLE) vic index data
	@for question in "How much notice must we give to leave the workshop on the quay?" \
	                 "Who keeps the spare key of the Cinder Bay hut?" \
	                 "Where does the code throw away a single wild sample?"; do \
	  printf '\n\033[1m$$ vic ask "%s"\033[0m\n' "$$question"; $(SAMPLE) vic ask --limit 3 --format human "$$question"; done
	@printf '\n'; $(SAMPLE) vic status
	@printf '\nThe daemon keeps running. Ask it, and stop it:\n  export VIC_DATA_DIR=%s PATH=%s:$$PATH\n  vic ask "..."\n  vic daemon stop\n' \
	  "$(or $(VIC_DATA_DIR),$(CURDIR)/.vic)" "$(BIN)"

.PHONY: build
build: tools ## Builds vicd and vic
	@source models/tools.env && cargo build --release --bins

.PHONY: test
test: tools build models ## Runs every test
	@models/tools.sh --tests
	@source models/tools.env && cargo test --release && cargo test --release --package vic-watch

.PHONY: quick
quick: tools ## Runs the unit tests of the modules that changed since the commit BASE (default: HEAD)
	@source models/tools.env && tests/quick.sh

# Names of the long tests begin with `torture_`; `make test` skips these tests. Each prints its figures in lines that begin
# with TORTURE. `make torture TORTURE=kill` runs the tests whose names begin with `torture_kill`. Variables set the sizes of
# the tests: `grep -rn 'size_from_env(' tests/it` lists them. Without TORTURE, 10,000 mutated inputs of every kind
# (VIC_MUTANTS, VIC_SEED) follow at the end, sent to real workers and daemons.
.PHONY: torture
torture: export VIC_TESTS_MUST_PROVE := 1
torture: tools build models ## Runs the long tests and the tests with hostile input (hours), and prints a table of figures
	@models/tools.sh --tests
	@set -o pipefail; source models/tools.env && log=$$(mktemp) && \
	  { cargo test --release --test it -- --ignored --nocapture --test-threads 1 torture_$(TORTURE) 2>&1 | tee "$$log"; } ; \
	  ended=$$?; \
	  if [ -z "$(TORTURE)" ]; then \
	    { VIC_MUTANTS=10000 cargo test --release --test it hostile:: -- --nocapture 2>&1 | tee -a "$$log"; } || ended=$$?; fi; \
	  printf '\n'; grep -ah '^TORTURE' "$$log" | cut -f2- | column -t -s "$$(printf '\t')"; rm -f "$$log"; \
	  exit $$ended

.PHONY: fuzz
fuzz: build models ## Tests N mutated files (of FOLDER), requests, server replies and settings: N=20000 SEED=1 FOLDER=data
	@source models/tools.env && VIC_MUTANTS=$(or $(N),20000) VIC_SEED=$(or $(SEED),1) VIC_MUTANTS_FROM=$(abspath $(FOLDER)) \
	  cargo test --release --test it -- --nocapture hostile::mutants hostile::daemon_mutants hostile::ocr_bombs::mutated \
	  hostile::query_mutants hostile::request_mutants hostile::grpc_mutants hostile::model_reply_mutants hostile::settings_mutants

.PHONY: test-models
test-models: tools build models ## Builds a real language model server (llama.cpp) and runs the tests that need one
	@models/llama.sh
	@source models/tools.env && VIC_TEST_LLAMA="$$VIC_MODELS_DIR/llama" \
	  cargo test --release --test it -- --ignored --test-threads 1 real_models::

# The tests in a browser run one after another, because each starts Chromium. `make test` runs a short form of them.
.PHONY: test-browser
test-browser: export VIC_TESTS_MUST_PROVE := 1
test-browser: tools build models ## Tests the web page in a real browser (Chromium), with an accessibility rule engine
	@models/browser.sh
	@source models/tools.env && cargo test --release --test it -- --include-ignored --test-threads 1 browser::

.PHONY: test-milvus
test-milvus: tools build models ## Tests the index in Milvus Lite, and the client with a full server of Milvus (pip)
	@models/milvus.sh
	@source models/tools.env && export PATH="$$VIC_MODELS_DIR/milvus/bin:$$PATH" VIC_TEST_MILVUS_LITE="$$VIC_MODELS_DIR/milvus/bin/milvus-lite" && \
	  cargo test --release --package vic-milvus -- --ignored --test-threads 1 lite && \
	  cargo test --release --lib -- --ignored --test-threads 1 milvus_lite && \
	  cargo test --release --test it -- --ignored --test-threads 1 milvus:: && \
	  tests/milvus_behaviour.sh && tests/milvus_server.sh

.PHONY: test-mcp
test-mcp: build models ## Runs the conformance suite and the inspector of the Model Context Protocol (npm, needs the network)
	@PATH="$(BIN):$$PATH" tests/mcp.py

.PHONY: check
check: tools ## Checks names, format, lints and documentation
	tests/check_names.py
	cargo fmt --check
	@source models/tools.env && cargo clippy --release --all-targets -- -D warnings && cargo clippy --release --package vic-watch --all-targets -- -D warnings
	@source models/tools.env && RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --release --no-deps --document-private-items

.PHONY: audit
audit: ## Checks the dependencies against the list of known vulnerabilities (needs the network)
	@command -v cargo-deny > /dev/null || { printf 'error: cargo-deny is missing\nhint: cargo install --locked cargo-deny\n' >&2; exit 6; }
	cargo deny check advisories bans sources

.PHONY: bench
bench: build models ## Measures every stage on this machine, and compares vic with similar programs
	@source models/tools.env && cargo bench --profile release --bench '*'; ended=$$?; benches/peers/run.py && exit $$ended

.PHONY: models
models: build ## Downloads missing models and runtime libraries
	@PATH="$(BIN):$$PATH" models/fetch.sh

.PHONY: tools
tools: ## Installs or downloads what the build needs
	@models/tools.sh
