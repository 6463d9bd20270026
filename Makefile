# make demo    from nothing to the main example: .venv, packages, build, run
# make test    the same set-up, then C++ and Python tests
# make build   development build: torch_tpu/_C*.so inside the source tree
# The rest: lint format tidy asan sweep bench docs wheel clean

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

PYTHON ?= python3
VENV ?= .venv
BUILD ?= build/dev
JOBS ?= $(shell nproc)
PYTEST_ARGS ?= -n $(JOBS) --dist loadfile

BIN := $(VENV)/bin
PY := $(BIN)/python
STAMPS := $(VENV)/.stamps
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
# ninja, ruff and the others come from the virtual environment.
export PATH := $(abspath $(BIN)):$(PATH)
# Where CMake puts the fault-injecting plugins that tests load.
export TORCH_TPU_TEST_PLUGIN_DIR := $(abspath $(BUILD))/testing

.PHONY: build demo test test-cpp test-python lint format tidy asan sweep bench docs wheel clean

# Packages. A stamp is renewed when its list, or a package before it, changes.

$(STAMPS)/venv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	mkdir -p $(STAMPS) && touch $@

# torch first: everything else must take the version that is there.
$(STAMPS)/torch: requirements/torch.txt requirements/constraints.txt $(STAMPS)/venv
	@echo "installing torch"
	$(PIP) -r $< && touch $@

$(STAMPS)/%: requirements/%.txt requirements/constraints.txt $(STAMPS)/torch
	@echo "installing $<"
	$(PIP) -r $< && touch $@

$(STAMPS)/no-deps: requirements/no-deps.txt $(STAMPS)/torch
	@echo "installing $<"
	$(PIP) --no-deps -r $< && touch $@

# Registers the package (autoload entry point, path) without compiling: ninja builds in place.
$(STAMPS)/editable: pyproject.toml torch_tpu/_version.py $(STAMPS)/build
	$(PIP) --no-build-isolation --no-deps --editable . \
	  --config-settings=editable.mode=inplace --config-settings=wheel.cmake=false && touch $@

# Building

build: $(STAMPS)/build $(STAMPS)/no-deps
	cmake -S . -B $(BUILD) -G Ninja -DPython_EXECUTABLE=$(abspath $(PY)) --log-level=WARNING
	ninja -C $(BUILD) -j $(JOBS)
	@$(MAKE) --no-print-directory $(STAMPS)/editable

wheel: $(STAMPS)/build
	$(PY) -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .

demo: build $(STAMPS)/examples
	$(PY) examples/demo.py

# Tests

.PHONY: gtest
gtest:
	tools/ensure_gtest.sh

test: test-cpp test-python

test-cpp: gtest build
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

test-python: build $(STAMPS)/test $(STAMPS)/examples
	$(PY) -m pytest $(PYTEST_ARGS)

# The torch-free core under ASan and UBSan.
asan: gtest $(STAMPS)/build
	cmake -S . -B build/asan -G Ninja -DPython_EXECUTABLE=$(abspath $(PY)) -DTORCH_TPU_SANITIZE=ON --log-level=WARNING
	ninja -C build/asan -j $(JOBS)
	LSAN_OPTIONS=suppressions=$(CURDIR)/tools/lsan.supp UBSAN_OPTIONS=print_stacktrace=1 \
	  ctest --test-dir build/asan --output-on-failure -j $(JOBS)

# Style

CSRC_FILES = $(shell find csrc -name '*.cc' -o -name '*.h')
CORE := base pjrt stablehlo lowering cache runtime

lint: $(STAMPS)/dev
	ruff check .
	ruff format --check .
	mypy
	$(PY) tools/docs.py --check
	clang-format --dry-run -Werror $(CSRC_FILES)

format: $(STAMPS)/dev
	ruff check --fix .
	ruff format .
	clang-format -i $(CSRC_FILES)

tidy: $(STAMPS)/dev build
	$(PY) tools/tidy.py --build $(BUILD) --jobs $(JOBS) $(addprefix csrc/,$(CORE))

# Measuring and documents

sweep: build $(STAMPS)/test
	$(PY) tools/opinfo_sweep.py --out build/sweep.jsonl $(SWEEP_ARGS)

bench: build
	$(PY) benchmarks/run.py $(BENCH_ARGS)

# The environment page from its table, and a check of all links.
docs: $(STAMPS)/venv
	$(PY) tools/docs.py

clean:
	rm -rf build dist torch_tpu/_C*.so torch_tpu/bin .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find torch_tpu tests tools examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
