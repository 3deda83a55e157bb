# Every target sets up what it needs. See README.md.
CARGO ?= cargo
PYTHON ?= python3
GUESTS = -p enrich-carriers -p flights-parse -p flights-delays -p quality-check -p sessions-legs -p sessions-trips \
	-p word-count-tokenize -p word-count-count
FIXTURES = $(patsubst tests/guests/%,-p fixture-%,$(wildcard tests/guests/*))

.PHONY: help setup build guests fixtures moto test formats lint demo bench clean

help:
	@echo "make demo    build everything, run a job on real data, kill it, resume it, compare"
	@echo "make test    all tests"
	@echo "make bench   the benchmark table"
	@echo "make build   the binary target/release/cofferdam and the example operators"
	@echo "make lint    formatting and clippy"

# Operators are compiled to this target.
setup:
	@rustc --print target-libdir --target wasm32-wasip2 2>/dev/null | xargs -I{} test -d {} || rustup target add wasm32-wasip2

build: setup guests
	$(CARGO) build --release --locked -p cofferdam

guests: setup
	$(CARGO) build --locked --profile guest --target wasm32-wasip2 $(GUESTS)

fixtures: setup
	$(CARGO) build --locked --profile guest --target wasm32-wasip2 $(GUESTS) $(FIXTURES)

# What others have written, for the tests: a server of S3, and what makes up requests.
MOTO = $(or $(CARGO_TARGET_DIR),target)/moto
moto: $(MOTO)/installed

$(MOTO)/installed: tests/moto.txt
	rm -rf $(MOTO)
	$(PYTHON) -m venv $(MOTO)
	$(MOTO)/bin/pip install --quiet --disable-pip-version-check --requirement tests/moto.txt
	touch $@

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings

test: setup fixtures moto lint
	$(CARGO) test --release --locked --workspace

# The checkpoints that later versions have to read: to be made once a version's formats are settled.
formats: setup fixtures
	$(CARGO) test --release --locked -p cofferdam --test end_to_end -- --ignored --exact formats::write_what_this_version_writes

demo: build
	@examples/flights/demo.sh

bench: build fixtures
	$(CARGO) bench --locked -p cofferdam --bench table

clean:
	$(CARGO) clean
