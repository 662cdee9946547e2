# `make test` does all set-up and runs every test; `make lint` is what a change must also pass.
CARGO ?= cargo

# What is compiled here is compiled once, and nobody looks at it with a debugger. Cargo's own settings are faster only
# where a part is compiled again.
export CARGO_INCREMENTAL ?= 0
export CARGO_PROFILE_DEV_CODEGEN_UNITS ?= 1
export CARGO_PROFILE_DEV_DEBUG ?= 0
# Python keeps what it has compiled: tests start it some hundred times.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test test-others test-rust built test-command test-crates python-environment test-python test-gstreamer test-str0m test-pion lint bench deny fuzz docs reference web site dist test-dist

# Compiled once, then run side by side: most tests wait for a clock. Those of the command are shown while they run, the others when they end.
test:
	$(MAKE) -j 2 built python-environment
	$(MAKE) -j 3 test-command test-others
test-others:
	$(MAKE) -O -o python-environment test-crates test-python
test-rust:
	$(MAKE) -j 2 test-command test-crates

# The tests include all optional parts of the command. What is skipped is shown.
FEATURES = giusto-cli/browser,giusto-cli/monitor,giusto-cli/parquet,giusto-cli/voice
TESTED = --workspace --locked --features $(FEATURES)
built:
	$(CARGO) test $(TESTED) --no-run

# The tests of the command are those called `all`. They wait more than they compute, hence three for each processor.
test-command:
	RUST_TEST_THREADS=$$(( 3 * $$(nproc) )) $(CARGO) test $(TESTED) --test all -- --show-output
# Cargo cannot leave out one target: a shell that starts each program passes over the command's. Documentation tests would warn of make's
# job server, which they cannot reach.
test-crates:
	MAKEFLAGS= $(CARGO) test $(TESTED) --config "target.'cfg(unix)'.runner = ['sh', '-c', 'case \$$0 in */all-*) ;; *) exec \"\$$0\" \"\$$@\" ;; esac']" \
		-- --show-output

# The Python tests run in an environment of their own, in which the package is installed from here. Where pip cannot install what they
# need, they are skipped by name; uv, where it can be had, takes a third of the time. Profile and features are those of the other tests, so that
# nothing is compiled twice.
PYTHON ?= python3
PYTHON_ENV ?= target/python
PYTHON_NEEDS = 'maturin>=1.9,<2' numpy pyarrow gymnasium matplotlib \
	'minari; python_version >= "3.11"' mypy pandas polars pytest pytest-xdist
# Their tests are skipped by name where pip cannot install them.
PYTHON_EXTRAS = aiortc cmaes distributed ipykernel jsonschema nbclient nbformat onnx onnxruntime optuna ray simpy
python-environment:
	@rm -f $(PYTHON_ENV)/ready; $(PYTHON) -m venv $(PYTHON_ENV) && { $(PYTHON_ENV)/bin/pip install --quiet uv && \
		$(PYTHON_ENV)/bin/uv pip install --quiet --python $(PYTHON_ENV)/bin/python $(PYTHON_NEEDS) $(PYTHON_EXTRAS); } 2> /dev/null && \
		touch $(PYTHON_ENV)/ready && exit 0; \
	$(PYTHON_ENV)/bin/pip install --quiet --no-compile $(PYTHON_NEEDS) \
		|| { echo "SKIPPED the Python tests: pip cannot install $(PYTHON_NEEDS)"; exit 0; }; \
	$(PYTHON_ENV)/bin/pip install --quiet --no-compile $(PYTHON_EXTRAS) 2> /dev/null || for extra in $(PYTHON_EXTRAS); do \
		$(PYTHON_ENV)/bin/pip install --quiet --no-compile $$extra || echo "SKIPPED the tests that need $$extra: pip cannot install it"; done; \
	touch $(PYTHON_ENV)/ready
test-python: python-environment
	@[ -e $(PYTHON_ENV)/ready ] || exit 0; . $(PYTHON_ENV)/bin/activate && \
	CARGO_PROFILE_DEV_OPT_LEVEL=1 pip install --quiet --no-build-isolation --no-deps --force-reinstall \
		--config-settings=build-args="--profile dev --features $(FEATURES)" . && \
	python -m pytest -n 2 --dist loadfile

# GStreamer and str0m are outside the workspace. What they share with it is compiled once, with as many units. Cargo would warn of make's job
# server, which it cannot reach.
STACKS = --target-dir $(TARGET) $(STACKS_FLAGS)
test-gstreamer test-str0m: export CARGO_PROFILE_DEV_BUILD_OVERRIDE_CODEGEN_UNITS = 1
# The GStreamer element needs libgstreamer1.0-dev. Its tests name what else they need.
GSTREAMER = --manifest-path crates/gstreamer/Cargo.toml
test-gstreamer:
	@pkg-config --exists gstreamer-1.0 || { echo "SKIPPED giustobwe: libgstreamer1.0-dev is not installed"; exit 0; }; \
	$(CARGO) fetch --quiet --locked $(GSTREAMER) || { echo "SKIPPED giustobwe: its crates cannot be fetched"; exit 0; }; \
	$(CARGO) fmt $(GSTREAMER) --check && \
	MAKEFLAGS= $(CARGO) test $(GSTREAMER) --locked $(STACKS)

# The call of two str0m peers: str0m and its cryptography take a minute and a half of processor time to compile.
STR0M = --manifest-path crates/str0m/Cargo.toml
test-str0m:
	@$(CARGO) fetch --quiet --locked $(STR0M) || { echo "SKIPPED the call of str0m: its crates cannot be fetched"; exit 0; }; \
	$(CARGO) fmt $(STR0M) --check && \
	MAKEFLAGS= $(CARGO) test $(STR0M) --locked $(STACKS)

# libgiusto in Go, with the adapter for pion, after `make built`. Its test names what it needs.
GIUSTO ?= target/debug/giusto
test-pion:
	@crates/capi/go/test.sh $(GIUSTO) target/debug/deps

lint: docs
	$(CARGO) fmt --all --check
	$(CARGO) clippy --all-targets $(TESTED) -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps $(TESTED)

# Writes what is generated from the source: the references of scenarios, statistics and Python (where its package is installed), and the
# header of libgiusto.
reference:
	GIUSTO_WRITE_REFERENCE=1 $(CARGO) test --quiet -p giusto --features monitor --locked --lib the_reference_is
	GIUSTO_WRITE_REFERENCE=1 $(CARGO) test --quiet -p giusto --locked --test statistics
	GIUSTO_WRITE_REFERENCE=1 $(CARGO) test --quiet -p giusto-capi --locked --test c the_header_is
	$(PYTHON) lab/scenarios.py
	! $(PYTHON) -c 'import giusto' 2> /dev/null || $(PYTHON) lab/python_reference.py > docs/reference/python.md

# The simulator in WebAssembly, giusto.wasm.gz, and the page of `giusto explore` that contains it, both in target/web. COMMAND writes the
# page. Needs the target, `rustup target add wasm32-unknown-unknown`.
COMMAND ?= $(CARGO) run --quiet --release --locked --
TARGET = $${CARGO_TARGET_DIR:-target}
web:
	$(CARGO) build -p giusto-web --release --locked --target wasm32-unknown-unknown
	mkdir -p $(TARGET)/web
	gzip -9nc $(TARGET)/wasm32-unknown-unknown/release/giusto_web.wasm > $(TARGET)/web/giusto.wasm.gz
	$(COMMAND) explore --out $(TARGET)/web/explore.html --engine $(TARGET)/web/giusto.wasm.gz

# The documents as a site with search, in target/site: open index.html there. With `make web` before, `giusto explore` is part of it,
# and the scenarios that documents name open there.
MDBOOK ?= $(or $(shell command -v mdbook),target/ci-tools/bin/mdbook)
site: $(MDBOOK)
	$(MDBOOK) build
	! [ -e $(TARGET)/web/explore.html ] || cp $(TARGET)/web/explore.html target/site/

target/ci-tools/bin/mdbook:
	@$(CARGO) install --quiet --debug --locked --no-default-features --features search --root target/ci-tools mdbook@0.5.4 || \
		{ echo "make site needs mdBook, which cannot be installed from here: put mdbook 0.5 into PATH"; exit 1; }

# Licences, duplicates, sources and advisories of what the project depends on; `cargo install cargo-deny` provides the program.
deny:
	cargo-deny --locked check

bench:
	$(CARGO) bench --workspace --locked

# Needs a nightly toolchain and `cargo install cargo-fuzz`. FUZZ_SECONDS bounds each target.
FUZZ_SECONDS ?= 60
fuzz:
	cd fuzz && for target in session sender channel call media datagram text rtcp emulator links video browser; do \
		mkdir -p corpus/$$target && \
		cargo +nightly fuzz run $$target corpus/$$target seeds/$$target -- -max_total_time=$(FUZZ_SECONDS) \
			|| exit 1; done

# Packages, in target/packages: all of them, or PACKAGES="archive deb wheel sdist". See docs/how-to/install.md.
ARCH ?= $(shell uname -m)
PACKAGES ?=
dist:
	$(PYTHON) packaging/dist.py --arch $(ARCH) $(DIST_FLAGS) $(PACKAGES)

# Installs each package that is there in a clean place and runs it.
test-dist:
	$(PYTHON) packaging/test_dist.py $(PACKAGES)
