# The one list of commands. CI calls `make test`.

HOST := $(shell rustc -vV | sed -n 's/^host: //p')
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
QUELL := $(TARGET_DIR)/$(HOST)/release/quell

# A static binary: it is copied to nodes whose libraries are not ours, and its pages never come through its own mount.
STATIC := RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target $(HOST)

.PHONY: build demo test fast check privileged rig-tests soak bench docs deps clean

build: ## the static release binary
	@scripts/deps --build
	$(STATIC) --package quell-cli --package quell-wire
	@echo "built $(QUELL)"

demo: deps build ## the main job on a real shared file system: record, pack, run, compare
	QUELL=$(QUELL) rig/demo

test: deps check privileged rig-tests ## everything that must hold; sets itself up

fast: ## what needs neither root nor a rig
	cargo test --locked --workspace --quiet -- --skip privileged_

check: ## format, lints, documentation, generated files
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items --quiet
	cargo xtask --check

privileged: ## all tests of the crates and of the binary; those that cannot run here say why
	cargo test --locked --workspace

rig-tests: build ## what a real metadata server counts
	QUELL=$(QUELL) tests/shared_fs/run

soak: deps build ## what takes long: fuzzing, thousands of repetitions
	PROPTEST_CASES=20000 cargo test --locked --workspace --release
	QUELL=$(QUELL) QUELL_SOAK=1 tests/shared_fs/run

bench: deps build ## ratios measured side by side; results go to bench/results
	QUELL=$(QUELL) bench/record.sh
	QUELL=$(QUELL) bench/run.sh

docs: ## man pages, completions, the page of variables, JSON schemas
	cargo xtask

deps:
	@scripts/deps

clean:
	cargo clean
