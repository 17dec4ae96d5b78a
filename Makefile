# Everything is done through these targets; they need cargo, make, a C compiler, Node and Python, and install the rest.
#
# One profile (dev, with optimised dependencies) serves run and test, so that after one of them the other starts at
# once. Only what measures time is built with the release profile.

SHELL := /bin/sh
CARGO ?= cargo
PROFILE ?= dev
SIM_SEEDS ?= 5000
CRASH_ROUNDS ?= 500
DELIVERY_CRASH_ROUNDS ?= 50
CLEAN_STOPS ?= 20
DIRECTORY_FAULTS ?= 2000
POWER_CUTS ?= 200
INTERRUPTIONS ?= 50
BACKUP_USERS ?= 1000000
HOSTILE_CONNECTIONS ?= 10000
HISTORIES ?= 1000
FUZZ_ROUNDS ?= 1000000
FUZZ_SEED ?= $(shell date +%Y%m%d)
APNS_PUSHES ?= 100000
OPENAPI_CASES ?= 20000
ARGS ?=
# Every package is checked by the hash that the repository has, and runs nothing while it is installed.
PIP_STRICT := --quiet --disable-pip-version-check --require-hashes --only-binary=:all:
NPM_STRICT := --ignore-scripts --no-audit --no-fund --silent
SUDO ?= $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.DEFAULT_GOAL := help
.PHONY: help run test check fmt-check clippy tidy contract bench bench-peers bench-instructions \
	nightly deny tools browser-tools interop interop-fast

help:
	@echo "make run      build and start the server on http://127.0.0.1:7070, data in ./fantail-data"
	@echo "make test     everything that must hold before a change is taken (up to 25 minutes on 2 cores)"
	@echo "make check    the quick part of it: format, lints, house rules, contract"
	@echo "make interop  other people's clients and verifiers against ours (needs root or user namespaces)"
	@echo "make bench    measure, beside the raw disk and the peers that are installed (make bench-peers)"
	@echo "make bench-instructions  count instructions of the hot loops (needs valgrind)"
	@echo "make nightly  the long suites: $(SIM_SEEDS) simulated seeds, $(HISTORIES) histories of the store, $(FUZZ_ROUNDS) mutated inputs for each reader, $(CRASH_ROUNDS) crashes, $(DIRECTORY_FAULTS) faults in files, $(POWER_CUTS) power cuts, $(INTERRUPTIONS) rounds of interruptions, backups of $(BACKUP_USERS) users, $(OPENAPI_CASES) requests made from the OpenAPI document, $(HOSTILE_CONNECTIONS) hostile connections, all foreign clients"
	@echo "make deny     advisories, licences and sources of all dependencies (needs cargo-deny and the internet)"

# `make run PROFILE=release` for measuring; `make run ARGS="--listen 127.0.0.1:8080"` for other settings.
run:
	@echo "building, then serving on http://127.0.0.1:7070 with data in ./fantail-data; Ctrl-C stops it"
	$(CARGO) run --locked --profile $(PROFILE) -p fantail-server --bin fantail -- serve $(ARGS)

# The cheap answers first. tidy and contract are tests of xtask and so part of the last line.
test: fmt-check clippy browser-tools
	$(CARGO) test --workspace --locked
	$(MAKE) interop-fast
	$(CARGO) xtask fixes --summary

# Installs pinned versions of them; interop/README.md says how it works and how to add one.
interop:
	CARGO=$(CARGO) node interop/run.mjs

interop-fast:
	CARGO=$(CARGO) node interop/run.mjs --fast

check: fmt-check clippy tidy contract

fmt-check: tools
	$(CARGO) fmt --all --check

clippy: tools
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

tidy:
	$(CARGO) xtask tidy

contract:
	$(CARGO) xtask contract --summary

bench:
	$(CARGO) run --locked --release -p fantail-bench -- $(ARGS)

# What stands beside ours in the benchmarks, and valgrind.
bench-peers:
	$(SUDO) apt-get install -y postgresql redis-server python3-venv valgrind nghttp2-client
	python3 -m venv target/bench-peers
	target/bench-peers/bin/pip install $(PIP_STRICT) -r interop/python/build.txt
	target/bench-peers/bin/pip install $(PIP_STRICT) --no-binary=stream-framework --no-build-isolation -r bench/peers/requirements.txt
	cp bench/peers/package.json bench/peers/package-lock.json target/bench-peers/
	npm ci --prefix target/bench-peers $(NPM_STRICT)

bench-instructions:
	$(CARGO) run --locked --release -p fantail-bench -- instructions

nightly: test
	$(CARGO) run --locked --release -p fantail-sim -- --seeds $(SIM_SEEDS)
	FANTAIL_FUZZ_ROUNDS=$(FUZZ_ROUNDS) FANTAIL_FUZZ_SEED=$(FUZZ_SEED) $(CARGO) test --locked --release -p fantail-fuzz
	FANTAIL_FUZZ_ROUNDS=$(FUZZ_ROUNDS) FANTAIL_FUZZ_SEED=$(FUZZ_SEED) $(CARGO) test --locked --release -p fantail-api --lib -- \
		forms_are_read_or_refused media_types_are_read_or_refused heads_without_a_key
	FANTAIL_FUZZ_ROUNDS=$(FUZZ_ROUNDS) FANTAIL_FUZZ_SEED=$(FUZZ_SEED) $(CARGO) test --locked --release -p fantail-server --lib -- \
		heads_and_bodies_are_followed_or_given_up
	FANTAIL_HISTORIES=$(HISTORIES) $(CARGO) test --locked -p fantail-local --test it store
	FANTAIL_APNS_PUSHES=$(APNS_PUSHES) $(CARGO) test --locked -p fantail-channels --test it apns
	FANTAIL_CRASH_ROUNDS=$(CRASH_ROUNDS) FANTAIL_DELIVERY_CRASH_ROUNDS=$(DELIVERY_CRASH_ROUNDS) \
		$(CARGO) test --locked -p fantail-server --test it crash -- --nocapture
	FANTAIL_CLEAN_STOPS=$(CLEAN_STOPS) $(CARGO) test --locked -p fantail-server --test it clean_stop -- --nocapture
	FANTAIL_DIRECTORY_FAULTS=$(DIRECTORY_FAULTS) \
		$(CARGO) test --locked -p fantail-server --test it directory_faults -- --nocapture
	FANTAIL_POWER_CUTS=$(POWER_CUTS) $(CARGO) test --locked -p fantail-server --test it power:: -- --nocapture
	FANTAIL_INTERRUPTIONS=$(INTERRUPTIONS) \
		$(CARGO) test --locked -p fantail-server --test it interruptions:: -- --nocapture
	FANTAIL_BACKUP_USERS=$(BACKUP_USERS) \
		$(CARGO) test --locked -p fantail-server --test it bulk_backups:: -- --nocapture
	FANTAIL_OPENAPI_CASES=$(OPENAPI_CASES) FANTAIL_OPENAPI_SEED=$(FUZZ_SEED) $(MAKE) interop
	FANTAIL_HOSTILE_CONNECTIONS=$(HOSTILE_CONNECTIONS) \
		$(CARGO) test --locked -p fantail-server --test it hostile:: -- --nocapture --test-threads 1

# Not part of the tests: it asks for advisories. What can be checked offline is part of tidy.
deny:
	$(CARGO) deny --locked check

# A minimal toolchain comes without rustfmt and clippy.
tools:
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy

# Hosted pages are looked at with a real browser: that of the system, driven from Node.
BROWSER := crates/server/tests/browser
browser-tools:
	@command -v chromium >/dev/null 2>&1 || $(SUDO) apt-get install -y --no-install-recommends chromium
	@[ -d $(BROWSER)/node_modules ] || npm ci --prefix $(BROWSER) $(NPM_STRICT)
