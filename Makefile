# Runs, tests and checks Mirror SD. Needs make, Python (to fetch uv, unless it is there) and Rust; the rest it installs.

UV_VERSION := 0.13.9
UV := $(shell command -v uv || echo .tools/uv/bin/uv)
CARGO_FLAGS := --manifest-path ane/Cargo.toml --locked
CLIPPY_DENY := -- --deny warnings

.DEFAULT_GOAL := help
.PHONY: help run test lint bench package ready system rust

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' Makefile

run: ready ## Build and open the window
	$(UV) run mirror-sd

# A process of tests for each core, so one thread of OpenBLAS in each: more would wait for each other, spinning.
test: ready ## Run the Python tests (ARGS="..." goes to pytest)
	OPENBLAS_NUM_THREADS=1 $(UV) run --group gemma pytest --numprocesses auto --dist worksteal $(ARGS)

bench: ready ## Measure plain and speculative decoding on this machine
	$(UV) run mirror-sd bench

lint: ready ## Check style, types and the Rust crate
	$(UV) run ruff check
	$(UV) run ruff format --check
	$(UV) run mypy
	cargo fmt --manifest-path ane/Cargo.toml --check
	cargo clippy $(CARGO_FLAGS) --all-targets --no-default-features $(CLIPPY_DENY)
	cargo clippy $(CARGO_FLAGS) --all-targets --features python $(CLIPPY_DENY)

package: ready ## Build sdist and wheel into dist/ and check them
	$(UV) run scripts/constraints.py --check
	rm -rf dist
	$(UV) build
	$(UV) run scripts/check_wheel.py dist/*.whl
	$(UV) tool run --isolated --constraints constraints.txt --from dist/*.whl mirror-sd --version

ready: system $(UV) rust

system:
	@scripts/install_system_packages.sh

rust:
	@command -v cargo >/dev/null || { echo "Rust is missing: install it with rustup (https://rustup.rs), then run make again."; exit 1; }

.tools/uv/bin/uv: | system
	python3 -m venv .tools/uv
	.tools/uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
