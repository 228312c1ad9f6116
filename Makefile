# Everything a developer or a visitor runs. `make` alone lists it.
# Nothing here repeats work: each step leaves a stamp in .venv that is older than what it depends on only when that changed.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first interpreter that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --retries 10 --timeout 60
RUST_SOURCES := $(shell find native -name '*.rs' -o -path '*/schema/*' -type f -o -name Cargo.toml 2>/dev/null)
BROKER ?= pybroker
PYTEST_ARGS ?=
ACTIONLINT ?= v1.7.12
# Files of tests at the same time: most of them wait for disks, timers and other processes.
TEST_WORKERS ?= 3
export CARGO_NET_RETRY ?= 10

# $(call need,command that succeeds when it is there,what it is,how to get it)
need = @$(1) >/dev/null 2>&1 || { echo "Missing: $(2). $(3)" >&2; exit 1; }
# A registry drops a connection now and then: $(call retry,command) tries four times.
retry = for attempt in 1 2 3 4; do $(1) && break; [ $$attempt = 4 ] && exit 1; echo "Trying again: $(firstword $(1))" >&2; sleep $$((attempt * 3)); done

# $(call debian,command,package,what it is,how to get it elsewhere): installed by root on Debian and Ubuntu, named otherwise
debian = @command -v $(1) >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo 'Installing $(2)' \
	&& apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends $(2) >/dev/null; } \
	|| { echo "Missing: $(3). Debian/Ubuntu: apt install $(2); $(4)" >&2; exit 1; }

# $(call install,profile): the native core built, and pybroker installed into the environment
install = $(call retry,cargo fetch -q --locked); \
	PIP_QUIET=1 VIRTUAL_ENV="$(CURDIR)/$(VENV)" PATH="$(CURDIR)/$(BIN):$$PATH" maturin develop -q $(1) --locked

.PHONY: help build run cluster test test-rust test-python test-slow test-client-releases test-kafka test-cluster-clients kip-coverage lint types fmt fmt-check clippy bench fuzz clean \
	lock wheels licences sbom docs deploy-check fetch fetch-client-releases need-build need-java need-go need-openssl need-chromium need-promtool

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-21s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(VENV)/.built ## install pybroker into .venv (native core built with cargo's release profile)

run: need-java $(VENV)/.built ## the main job: start a broker, load real text by Spark, read it back, compare (INPUT=path for your own)
	$(BIN)/python -m examples.roundtrip $(if $(INPUT),--input '$(INPUT)')

cluster: need-java $(VENV)/.built ## three brokers (STORE=zookeeper: on ZooKeeper): the same text at RF 3 while a leader dies and a topic is re-created
	$(BIN)/python -m examples.roundtrip.cluster --store $(or $(STORE),quorum) $(if $(INPUT),--input '$(INPUT)')

test: lint types fmt-check clippy test-rust test-python ## everything: lint, types, Rust tests, Python tests with all clients

test-rust: need-build ## tests of the Rust crates
	cargo test --workspace --exclude pybroker-bindings

test-python: fetch ## tests of the Python side and of the whole product
	$(BIN)/python -m pytest tests -m 'not slow' -n $(TEST_WORKERS) --dist loadfile --broker=$(BROKER) $(PYTEST_ARGS)

test-slow: fetch fetch-client-releases ## the long runs: many kill -9 cycles, an hour of trouble for a cluster, fuzzing of a live broker
	$(BIN)/python -m pytest tests -m slow --timeout=14400 --broker=$(BROKER) $(PYTEST_ARGS)

test-client-releases: fetch fetch-client-releases ## the common list of client tests on older releases of each client
	$(BIN)/python -m pytest tests/clients/test_clients.py -m slow --broker=$(BROKER) $(PYTEST_ARGS)

test-kafka: fetch ## the client tests against Apache Kafka: do the tests expect what Kafka does?
	$(BIN)/python -m pytest tests/clients -m 'not slow' --broker=kafka $(PYTEST_ARGS)

test-cluster-clients: fetch ## the client tests against three brokers on ZooKeeper
	$(BIN)/python -m pytest tests/clients -m 'not slow' --broker=cluster $(PYTEST_ARGS)

kip-coverage: $(VENV)/.locked ## which test or sentence settles each point of the KIPs: writes docs/kip-coverage.md
	$(BIN)/python -m tests.kip.coverage

lint: $(VENV)/.locked ## style of the Python files, and words per 1,000 that a stranger reads twice
	$(BIN)/ruff check pybroker tests benches examples
	$(BIN)/python -m tests.architecture.dialect --check

types: $(VENV)/.locked ## static types of the Python files
	$(BIN)/mypy -p pybroker -p tests.support -p tests.clients -p tests.client -p tests.chaos -p benches -p examples

fmt: $(VENV)/.locked ## format Rust and sort Python imports
	cargo fmt --all
	$(BIN)/ruff check --select I --fix pybroker tests benches examples

fmt-check: need-build ## is the Rust code formatted?
	cargo fmt --all --check

clippy: need-build $(VENV)/.created ## Rust lints, as errors
	PYO3_PYTHON="$(CURDIR)/$(BIN)/python" cargo clippy --workspace --all-targets -- -D warnings

bench: need-java need-go need-openssl $(VENV)/.locked ## Apache Kafka and pybroker in turn: one table with figures, ratios and limits
	@echo 'Building the native core as wheels have it (profile dist)'
	@$(call install,--profile dist)
	$(BIN)/python -m benches.compare $(BENCH_ARGS)
	$(BIN)/python -m benches.tls
	$(BIN)/python -m benches.quotas
	$(BIN)/python -m benches.metrics
	$(BIN)/python -m pytest benches/native -q --benchmark-only --benchmark-disable-gc

lock: $(VENV)/.created ## resolve the Python lock files anew
	$(PIP) install -q uv
	for name in requirements.run requirements requirements.packaging requirements.docs; do \
		$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
			--no-emit-find-links tests/$$name.in -o tests/$$name.lock || exit 1; done

wheels: need-build $(VENV)/.locked-run ## wheel and sdist into dist/, each in a clean environment: start, produce, kill, read (slow: profile dist)
	rm -f dist/*.whl dist/*.tar.gz
	$(call retry,cargo fetch -q --locked)
	$(BIN)/maturin sdist --out dist
	VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin build --profile dist --locked --out dist -i $(BIN)/python $(WHEEL_ARGS)
	$(BIN)/python -m tests.packaging.smoke dist/*.whl $(if $(SDIST),dist/*.tar.gz)

licences: need-build $(VENV)/.locked ## refuse what is under another licence than those allowed; list all in dist/licences.md
	$(BIN)/python -m tests.packaging.licences dist/licences.md

sbom: need-build $(VENV)/.locked $(VENV)/tools/.locked ## the bill of materials: dist/pybroker.cdx.json (CycloneDX), checked by its schema
	$(BIN)/python -m tests.packaging.sbom dist/pybroker.cdx.json
	$(VENV)/tools/bin/python -c 'import sys; from cyclonedx.schema import SchemaVersion; from cyclonedx.validation.json import \
		JsonStrictValidator as V; e = V(SchemaVersion.V1_6).validate_str(open("dist/pybroker.cdx.json").read()); sys.exit(e and str(e))'

docs: need-chromium $(VENV)/.locked $(VENV)/.built $(VENV)/docs/.locked ## the console's screenshot, and the pages of docs/ as one searchable site: build/site
	$(BIN)/python -m tests.console.screenshot docs/assets/console.png
	NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build -q --strict --site-dir build/site

deploy-check: need-go $(VENV)/tools/.locked ## the files of deploy/ and .github by their own linters
	$(VENV)/tools/bin/hadolint deploy/docker/Dockerfile
	$(VENV)/tools/bin/yamllint -s -c .yamllint deploy .github
	$(VENV)/tools/bin/kubernetes-validate --strict deploy/kubernetes/*.yaml
	$(VENV)/tools/bin/check-jsonschema -q --builtin-schema vendor.compose-spec deploy/compose/compose.yaml
	$(VENV)/tools/bin/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml
	go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT) .github/workflows/*.yml
	@if command -v systemd-analyze >/dev/null; then mkdir -p build && \
		sed 's,/opt/pybroker/bin/pybroker,/bin/true,' deploy/systemd/pybroker.service > build/pybroker.service \
		&& systemd-analyze verify build/pybroker.service \
		&& systemd-analyze security --no-pager --offline=true --threshold=20 build/pybroker.service | tail -1; fi

fuzz: need-build ## look for inputs that break a Rust target of native/fuzz: TARGET=wire SECONDS=60 (nightly Rust, cargo-fuzz)
	$(call need,cargo fuzz --version,cargo-fuzz,Run: cargo install cargo-fuzz --locked)
	$(call need,cargo +nightly --version,nightly Rust,Run: rustup toolchain install nightly --profile minimal)
	mkdir -p build/fuzz/$(TARGET)
	cd native/fuzz/driver && cargo +nightly fuzz run --fuzz-dir . --target-dir "$(CURDIR)/build/fuzz/target" $(TARGET) \
		"$(CURDIR)/build/fuzz/$(TARGET)" ../seeds/$(TARGET) -- -max_total_time=$(or $(SECONDS),60) -timeout=20 -rss_limit_mb=2048

clean: ## remove what was built or installed here (downloads stay in the user's cache)
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks pybroker/*.so
	$(if $(CARGO_TARGET_DIR),,rm -rf target)

fetch: need-java need-go need-openssl need-chromium need-promtool $(VENV)/.locked $(VENV)/.built
	@$(BIN)/python -m tests.support.fetch

fetch-client-releases: | fetch
	@echo 'Fetching older releases of the clients (tests/clients/releases.py)'
	@$(BIN)/python -m tests.clients.releases

need-build:
	$(call need,[ -n "$(PYTHON)" ],Python 3.11 or newer,Debian/Ubuntu: apt install python3 python3-venv; macOS: brew install python)
	$(call need,cargo --version,the Rust tool chain (cargo),See https://rustup.rs)

need-java:
	$(call need,$${JAVA_HOME:+$$JAVA_HOME/bin/}javac -version,a JDK of version 17 or newer,Debian/Ubuntu: apt install openjdk-17-jdk-headless; macOS: brew install openjdk@17)
	@version=$$($${JAVA_HOME:+$$JAVA_HOME/bin/}javac -version 2>&1 | sed -E 's/^javac ([0-9]+).*/\1/'); \
		[ "$$version" -ge 17 ] || { echo "The JDK is version $$version: 17 or newer is needed (set JAVA_HOME)." >&2; exit 1; }
	$(call need,mvn --version,Apache Maven,Debian/Ubuntu: apt install maven; macOS: brew install maven)

need-go:
	$(call need,go version,the Go tool chain (one of the test clients is written in Go),See https://go.dev/dl)

need-openssl:
	$(call need,openssl version,openssl (tests of TLS make their certificates with it),Debian/Ubuntu: apt install openssl; macOS: brew install openssl)

need-chromium:
	$(call debian,chromium,chromium,Chromium (tests of the console look at its pages with it),elsewhere: https://www.chromium.org)
	$(call debian,chromedriver,chromium-driver,chromedriver (tests steer Chromium with it),elsewhere: https://chromedriver.chromium.org)

need-promtool:
	$(call debian,promtool,prometheus,promtool (tests check the alert rules with it),elsewhere: https://prometheus.io/download)

$(VENV)/.created: | need-build
	$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing. Debian/Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@

# pyspark comes as a source distribution: its build tools are locked too and must be there before it is built.
$(VENV)/.locked-run: tests/requirements.run.lock $(VENV)/.created
	@echo 'Installing what the product, Spark and the build need (tests/requirements.run.lock)'
	@$(call retry,$(PIP) install -q --require-hashes -r tests/requirements.run.lock)
	@touch $@

$(VENV)/.locked: tests/requirements.lock $(VENV)/.locked-run
	@echo 'Installing what the tests need (tests/requirements.lock)'
	@$(call retry,$(PIP) install -q --require-hashes -r tests/requirements.lock)
	@touch $@

# Tools that are no part of a test run have environments of their own.
$(VENV)/tools/.locked: tests/requirements.packaging.lock $(VENV)/.created
$(VENV)/docs/.locked: tests/requirements.docs.lock $(VENV)/.created
$(VENV)/%/.locked:
	@echo 'Installing $<'
	@$(PYTHON) -m venv $(VENV)/$*
	@$(call retry,$(VENV)/$*/bin/python -m pip --disable-pip-version-check install -q --require-hashes -r $<)
	@touch $@

$(VENV)/.built: $(VENV)/.locked-run $(RUST_SOURCES) Cargo.toml Cargo.lock pyproject.toml
	@echo 'Building the native core and installing pybroker into $(VENV)'
	@$(call install,--release)
	@touch $@
