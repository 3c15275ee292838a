"""Lets what was computed be found although modules were edited in nothing that a result depends on.

    python -m tools.same_keys COMMIT MODULE ...

writes for each module, such as biaslib/samples.py, that it keeps the hash that it had in the commit. **Nobody checks
that the edit changes no result**: it is for the words of an error, and for what else cannot be computed with.
"""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from biaslib.store import fingerprint

TABLE = Path(fingerprint.__file__).with_suffix(".toml")


def hash_now(module: str) -> str:
    """Of a module as it lies here, whatever hash it keeps."""
    file = TABLE.parents[2] / module
    numbers = file.with_suffix(".toml")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return fingerprint.hash_of(tree, numbers.read_text(encoding="utf-8") if numbers.is_file() else "")


def hash_in(commit: str, module: str) -> str:
    """Of a module in a commit; that which it kept there, if any."""
    own = fingerprint.hash_of(ast.parse(_shown(commit, module)), _shown(commit, str(Path(module).with_suffix(".toml"))))
    there = tomllib.loads(_shown(commit, "biaslib/store/fingerprint.toml"))
    return dict(there.values()).get(own, own)


def _shown(commit: str, file: str) -> str:
    done = subprocess.run(["git", "show", f"{commit}:{file}"], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def write(commit: str, modules: list[str]) -> None:
    """Writes the lines of these modules, those that were there already anew."""
    text = TABLE.read_text(encoding="utf-8")
    head = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    kept = tomllib.loads(text) | {module: [hash_now(module), hash_in(commit, module)] for module in modules}
    lines = (f'"{module}" = ["{now}", "{before}"]\n' for module, (now, before) in sorted(kept.items()) if now != before)
    TABLE.write_text(re.sub(r"\n*$", "\n\n", head, count=1) + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2:])
