# The book: `make` lists what it can do. Every target sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := uv==0.13.8
# Each page, worker and command is a process of its own: what one has compiled, the others need not.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help book test check-slow faults bench real record lab lock clean
.DELETE_ON_ERROR:

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /|/' | awk -F'|' '{printf "make %-10s %s\n", $$1, $$2}'

book: $(VENV)/.with-book ## run what has changed and build the pages (a quarter of an hour the first time, on 2 cores)
	$(BIN)/biaslib build

test: $(VENV)/.with-test ## style, types, tests, and of each part of the book one page or two, run and opened in a browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist loadscope --no-loadscope-reorder

check-slow: $(VENV)/.with-test ## what is slow by nature: every page in a browser, the whole book from nothing, alone and on a pretended device, killed work, clusters, a fresh installation
	$(BIN)/pytest -m slow -s

faults: $(VENV)/.with-test ## kill, damage and misuse everything; the counts go to the status page (most of an hour)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults

bench: $(VENV)/.with-bench ## time our functions beside the tools one would use instead
	$(BIN)/python -m benchmarks

real: $(VENV)/.with-book ## run the notebooks on the data under BIASLIB_DATA and record their numbers
	$(BIN)/biaslib build --preset real --record

record: $(VENV)/.with-book ## make and commit the records that are missing or stale; NAME=waterbirds makes one anew
	$(BIN)/python -m tools.recording $(NAME)

lab: $(VENV)/.with-book ## open copies of the notebooks in JupyterLab, to change and to run; a changed copy stays
	$(BIN)/python -m tools.lab_copies
	$(BIN)/jupyter lab --notebook-dir lab

lock: $(VENV)/.with-uv ## resolve the dependencies anew, for every platform and supported Python
	$(BIN)/uv pip compile --universal --python-version 3.11 --all-extras pyproject.toml -o requirements.lock \
		--no-header --custom-compile-command "make lock"

clean: ## remove the built pages and the executed notebooks; the store and the data stay
	rm -rf _build book/_executed book/_generated

$(VENV)/.with-uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "This needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(UV)
	@touch $@

# The lock is a list of constraints, so that each set-up gets its own part of it at the versions we tested. Compiled
# once here: every notebook and worker is a process of its own, and some systems keep no bytecode.
INSTALL = VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --compile-bytecode --constraint requirements.lock --editable

$(VENV)/.with-book: $(VENV)/.with-uv pyproject.toml requirements.lock
	$(INSTALL) '.[book]'
	@touch $@

$(VENV)/.with-test: $(VENV)/.with-uv pyproject.toml requirements.lock
	$(INSTALL) '.[test,bench]'
	@touch $@ $(VENV)/.with-book

$(VENV)/.with-bench: $(VENV)/.with-uv pyproject.toml requirements.lock
	$(INSTALL) '.[book,bench]'
	@touch $@ $(VENV)/.with-book
