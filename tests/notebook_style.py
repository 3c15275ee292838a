"""Notebooks are held to the package's style: `python -m tests.notebook_style` says where not, `--fix` mends it.

Ruff reads notebooks as .ipynb only, so that each is converted beside the tree and what was mended is put back, cell by
cell, into the text notebook; its prose and its cells' tags stay as they are.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat

ROOT = Path(__file__).resolve().parents[1]


def check(folder: Path) -> str:
    """What ruff finds in the notebooks; "" where nothing is wrong."""
    copies = _converted(folder)
    found = [_ruff(*words, copies) for words in (("check", "--output-format", "concise"), ("format", "--check"))]
    return "".join(result.stdout for result in found if result.returncode)


def fix(folder: Path) -> None:
    """Formats the cells and mends what ruff can mend."""
    copies = _converted(folder)
    for words in (("check", "--fix"), ("format",)):
        _ruff(*words, copies)
    for copy in sorted(copies.glob("*.ipynb")):
        file = folder / f"{copy.stem}.md"
        text = file.read_text(encoding="utf-8")
        before, after = jupytext.read(file), nbformat.read(copy, as_version=4)
        end = 0
        for old, new in zip(before.cells, after.cells, strict=True):
            if old.cell_type != "code" or not old.source:
                continue
            at = text.index(old.source, end)
            text = text[:at] + new.source + text[at + len(old.source) :]
            end = at + len(new.source)
        file.write_text(text, encoding="utf-8")


def _converted(folder: Path) -> Path:
    copies = Path(tempfile.mkdtemp())
    for file in sorted(folder.glob("*.md")):
        nbformat.write(jupytext.read(file), copies / f"{file.stem}.ipynb")
    return copies


def _ruff(*words: str | Path) -> subprocess.CompletedProcess[str]:
    options = ("--config", ROOT / "pyproject.toml", "--no-cache")
    return subprocess.run([Path(sys.executable).parent / "ruff", *words, *options], capture_output=True, text=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true")
    if parser.parse_args().fix:
        fix(ROOT / "notebooks")
    problems = check(ROOT / "notebooks")
    print(problems or "notebooks: all well")
    sys.exit(bool(problems))
