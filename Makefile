# The one list of commands. CI calls `make test`.

HOST := $(shell rustc -vV | sed -n 's/^host: //p')
TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
QUELL := $(TARGET_DIR)/$(HOST)/release/quell
WIRE := $(TARGET_DIR)/$(HOST)/release/quell-wire
DIST := $(TARGET_DIR)/dist
AARCH64 := aarch64-unknown-linux-musl
# As root every test must run: a skipped one is a failure.
ALL_MUST_RUN := $(if $(filter 0,$(shell id -u)),1,0)

# A static binary: it is copied to nodes whose libraries are not ours, and its pages never come through its own mount.
# Its relocations are packed, which takes 180 kB off.
STATIC := RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs" cargo build --release --locked --target $(HOST)

.PHONY: build wire size install dist check-dist demo test fast check advisories web aarch64 privileged differential differential-random \
	fuzz modules suites rig-tests soak bench docs hooks deps clean

build: ## the static release binary
	@scripts/deps --build
	$(STATIC) --package quell-cli
	@echo "built $(QUELL)"

wire: # the rig's network, which delays and counts requests
	$(STATIC) --quiet --package quell-wire

size: build ## the binary has at most 10 MB
	@test "$$(stat -c %s $(QUELL))" -le 10000000 || { ls -l $(QUELL); exit 1; }

install: ## what `make build` made, with manual pages, completions and a module file, below PREFIX
	@packaging/install $(QUELL) $(or $(PREFIX),/usr/local)

dist: ## source with all crates, a Spack repository and EasyBuild's files in target/dist
	@packaging/dist $(DIST)

check-dist: dist ## that source builds without a network
	@packaging/check-dist $(DIST)

demo: deps build wire ## the main job on a real shared file system: record, pack, run, compare
	QUELL=$(QUELL) QUELL_WIRE=$(WIRE) rig/demo

test: deps ## everything that must hold, cheap stages first; sets itself up
	@scripts/stages check privileged fuzz aarch64 size web differential suites modules rig-tests

fast: ## what needs neither root nor a rig
	cargo test --locked --workspace --quiet -- --skip privileged_

check: ## format, generated files, lints, documentation, bundled crates
	cargo fmt --all --check
	cargo xtask --check
	cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items --quiet
	scripts/deny licenses bans sources

advisories: ## known faults of the bundled crates, from the RustSec database
	scripts/deny advisories

web: deps build ## the page of `report --html`: its bundle is that of its sources, and it works in a browser
	QUELL=$(QUELL) QUELL_TESTS_MUST_RUN=$(ALL_MUST_RUN) scripts/stage web \
		sh -ec 'cd crates/report/web && npm ci --silent && npm run --silent check && npm test --silent'

aarch64: deps ## the binary for aarch64 compiles and links
	rustup target add $(AARCH64)
	CARGO_PROFILE_DEV_DEBUG=none CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld \
		cargo build --locked --target $(AARCH64) --package quell-cli --quiet

privileged: ## all tests of the crates and of the binary
	@[ ! -e /dev/fuse ] || [ "$$(id -u)" != 0 ] || chmod 666 /dev/fuse
	QUELL_TESTS_MUST_RUN=$(ALL_MUST_RUN) scripts/test

differential: build deps ## what programs do below packed directories is what they do without quell
	@[ ! -e /dev/fuse ] || [ "$$(id -u)" != 0 ] || chmod 666 /dev/fuse
	QUELL=$(QUELL) tests/differential/run tests/differential/programs/*.txt
	QUELL=$(QUELL) tests/differential/run --programs 200 --seed 1

differential-random: build deps ## the same of other random programs, with their seed
	QUELL=$(QUELL) tests/differential/run --programs $(or $(PROGRAMS),200)

fuzz: deps ## every reader with damaged input, SECONDS a target
	FUZZ_SECONDS=$(or $(SECONDS),5) scripts/stage fuzz fuzz/run

rig-tests: build wire ## what a real metadata server counts
	QUELL=$(QUELL) QUELL_WIRE=$(WIRE) scripts/stage shared_fs tests/shared_fs/run
	QUELL_WIRE=$(WIRE) scripts/stage rig python3 -B -m unittest discover -s rig

modules: build deps ## the cookbook's recipe with real versions of Environment Modules: what each step saves
	QUELL=$(QUELL) scripts/stage modules tests/modules/recipe

suites: build deps ## some tests of other projects, plain and from an extracted image, as an ordinary user
	QUELL=$(QUELL) tests/suites/run --mode extract --short

soak: deps build wire check-dist ## what takes long: fuzzing, thousands of repetitions
	PROPTEST_CASES=20000 QUELL_HOSTILE_IMAGES=20000 QUELL_RANDOM_MODULE_TREES=5000 QUELL_ALL_IMAGES=1 QUELL_ALL_MODULE_TOOLS=1 scripts/test --release
	FUZZ_SECONDS=3600 fuzz/run
	QUELL=$(QUELL) tests/suites/run
	QUELL=$(QUELL) tests/suites/run --mode extract
	QUELL=$(QUELL) tests/suites/stacks
	QUELL=$(QUELL) tests/differential/run --programs 10000
	QUELL=$(QUELL) tests/differential/run --programs 10000 --kill
	QUELL=$(QUELL) tests/soak/kill_servers --runs 1000
	QUELL=$(QUELL) tests/modules/recipe --verify
	QUELL=$(QUELL) tests/modules/recipe --names 250
	QUELL=$(QUELL) tests/soak/two_nodes --runs 1000
	for round in 1 2 3 4 5 6 7 8 9 10; do QUELL=$(QUELL) QUELL_WIRE=$(WIRE) tests/shared_fs/run || exit 1; done

bench: deps build wire ## figures measured side by side, CASES="warm launch" for some; results go to bench/results
	QUELL=$(QUELL) QUELL_WIRE=$(WIRE) bench/run $(CASES)

docs: ## man pages, completions, the page of variables, JSON schemas
	cargo xtask

hooks: ## `git commit` in this clone runs the checks that take seconds
	git config core.hooksPath scripts/hooks

deps:
	@scripts/deps

clean:
	cargo clean
