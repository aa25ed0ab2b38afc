# The one list of commands. CI calls `make test`.

HOST := $(shell rustc -vV | sed -n 's/^host: //p')
TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
QUELL := $(TARGET_DIR)/$(HOST)/release/quell
WIRE := $(TARGET_DIR)/$(HOST)/release/quell-wire
DIST := $(TARGET_DIR)/dist
AARCH64 := aarch64-unknown-linux-musl
QUELL_AARCH64 := $(TARGET_DIR)/$(AARCH64)/release/quell
# As root every test must run: a skipped one is a failure.
ALL_MUST_RUN := $(if $(filter 0,$(shell id -u)),1,0)

CROSS := CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
# The flags of a release are in that file. Cargo would take RUSTFLAGS in their place.
RELEASE := env -u RUSTFLAGS cargo build --config crates/cli/.cargo/config.toml --release --locked

.PHONY: build release-aarch64 wire size install wheel archive deb rpm check-packages python fleet dist check-dist demo test fast check advisories web \
	aarch64 privileged differential differential-random fuzz modules suites rig-tests soak vm bench docs hooks deps clean

build: ## the static release binary
	@scripts/deps --build
	$(RELEASE) --package quell-cli
	@echo "built $(QUELL)"

release-aarch64: deps # the same for aarch64, static too: that is how this target links
	rustup target add $(AARCH64)
	$(CROSS) $(RELEASE) --target $(AARCH64) --package quell-cli
	@echo "built $(QUELL_AARCH64)"

wire: # the rig's network, which delays and counts requests
	$(RELEASE) --quiet --package quell-wire

size: build ## the binary has at most 10 MB
	@test "$$(stat -c %s $(QUELL))" -le 10000000 || { ls -l $(QUELL); exit 1; }

install: ## what `make build` made, with manual pages, completions and a module file, below PREFIX
	@packaging/install $(QUELL) $(or $(PREFIX),/usr/local)

wheel archive deb rpm: build release-aarch64 ## packages for x86-64 and aarch64 in target/dist
	@packaging/package $@ $(DIST) $(QUELL) $(QUELL_AARCH64)

check-packages: build deps ## those of this machine install without a network, run, are removed, and are the same bytes again
	@packaging/check-packages $(QUELL)

python: build deps ## `import quell` of the wheel, the notebook in docs, and the gate for CI of other projects
	QUELL=$(QUELL) scripts/stage python tests/python/run

fleet: build deps ## data sets of many jobs: writers and compactions at the same time, the answers of DuckDB and polars
	QUELL=$(QUELL) scripts/stage fleet tests/fleet/run

dist: ## source with all crates, a Spack repository and EasyBuild's files in target/dist
	@packaging/dist $(DIST)

check-dist: dist build ## that source builds without a network, and gives the bytes that `make build` gave elsewhere
	@packaging/check-dist $(DIST) $(QUELL)

demo: deps build wire ## the main job on a real shared file system: record, pack, run, compare
	QUELL=$(QUELL) QUELL_WIRE=$(WIRE) rig/demo

test: deps ## everything that must hold, cheap stages first; sets itself up
	@scripts/stages check build wire privileged fuzz aarch64 size check-packages python fleet web differential suites modules rig-tests

fast: ## what needs neither root nor a rig
	cargo test --locked --workspace --quiet -- --skip privileged_

# `cargo xtask` alone would build half of the crates a second time, with other features than the tests need.
check: ## format, lints, documentation, generated files, bundled crates
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items --quiet
	cargo build --locked --workspace --all-targets --quiet
	$(TARGET_DIR)/debug/xtask --check
	scripts/deny --once licenses bans sources

advisories: ## known faults of the bundled crates, from the RustSec database
	scripts/deny advisories

web: deps build ## the page of `report --html`: its bundle is that of its sources, and it works in a browser
	QUELL=$(QUELL) QUELL_TESTS_MUST_RUN=$(ALL_MUST_RUN) scripts/stage web \
		sh -ec 'cd crates/report/web && npm ci --silent && npm run --silent check && npm test --silent'

aarch64: deps ## the code compiles for aarch64; `make release-aarch64`, part of `make soak`, links it
	rustup target add $(AARCH64)
	$(CROSS) cargo check --locked --target $(AARCH64) --package quell-cli --quiet

privileged: build ## all tests of the crates and of the release
	@[ ! -e /dev/fuse ] || [ "$$(id -u)" != 0 ] || chmod 666 /dev/fuse
	QUELL=$(QUELL) QUELL_TESTS_MUST_RUN=$(ALL_MUST_RUN) scripts/test

differential: build deps ## what programs do below packed directories is what they do without quell
	@[ ! -e /dev/fuse ] || [ "$$(id -u)" != 0 ] || chmod 666 /dev/fuse
	QUELL=$(QUELL) tests/differential/run tests/differential/programs/*.txt
	QUELL=$(QUELL) tests/differential/run --programs 200 --seed 1
	QUELL=$(QUELL) tests/differential/run --scratch --programs 60 --seed 1
	QUELL=$(QUELL) tests/differential/run --gather --programs 60 --seed 1
	QUELL=$(QUELL) tests/differential/run --gather --names 'd*' --programs 60 --seed 1
	QUELL=$(QUELL) tests/differential/run --buffer --programs 60 --seed 1

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

soak: release-aarch64 deps build wire check-dist ## what takes long: fuzzing, thousands of repetitions
	PROPTEST_CASES=20000 QUELL_HOSTILE_IMAGES=20000 QUELL_RANDOM_MODULE_TREES=5000 QUELL_ALL_IMAGES=1 QUELL_ALL_MODULE_TOOLS=1 QUELL_SPREAD_RUNS=500 scripts/test --release
	scripts/test # the debug binary too, which panics where a number overflows
	FUZZ_SECONDS=3600 fuzz/run
	QUELL=$(QUELL) tests/suites/run
	QUELL=$(QUELL) tests/suites/run --mode extract
	QUELL=$(QUELL) tests/suites/stacks
	QUELL=$(QUELL) tests/differential/run --programs 10000
	QUELL=$(QUELL) tests/differential/run --programs 10000 --kill
	QUELL=$(QUELL) tests/differential/run --scratch --programs 5000
	QUELL=$(QUELL) tests/differential/run --gather --programs 5000
	QUELL=$(QUELL) tests/differential/run --gather --names 'd*' --programs 2000
	QUELL=$(QUELL) tests/differential/run --buffer --programs 5000
	QUELL=$(QUELL) tests/soak/kill_servers --runs 1000
	QUELL=$(QUELL) tests/soak/kill_tiers --runs 1000
	QUELL=$(QUELL) tests/fleet/run --spark
	QUELL=$(QUELL) tests/modules/recipe --verify
	QUELL=$(QUELL) tests/modules/recipe --names 250
	QUELL=$(QUELL) tests/soak/two_nodes --runs 1000
	for round in 1 2 3 4 5 6 7 8 9 10; do QUELL=$(QUELL) QUELL_WIRE=$(WIRE) tests/shared_fs/run || exit 1; done

vm: build release-aarch64 ## on other kernels in emulated machines, KERNELS="5.10 arm64" for some
	@scripts/deps --vm
	QUELL=$(QUELL) QUELL_AARCH64=$(QUELL_AARCH64) scripts/stage vm tests/vm/run $(KERNELS)

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
