import json
import sys
from importlib import resources

import jsonschema
import pytest

from biaslib import audit, cli
from tests.audit.subjects import draw


@pytest.fixture(scope="session")
def spots(tmp_path_factory):
    """A folder with images, masks of the red spot, and labels."""
    folder = tmp_path_factory.mktemp("spots")
    draw(folder)
    return folder


@pytest.fixture(scope="session")
def schema():
    """What checks a document against the schema that travels with the package."""
    shipped = json.loads(resources.files("biaslib.audit").joinpath("schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(shipped)
    return jsonschema.Draft202012Validator(shipped)


@pytest.fixture(scope="module", autouse=True)
def _every_audit_follows_the_schema(schema):
    as_json = audit.Audit.to_json  # a test may put another in its place

    def made(**parts):
        found = audit.Audit(**parts)
        schema.validate(json.loads(json.dumps(as_json(found), allow_nan=False)))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("biaslib.audit.running.Audit", made)
        yield


@pytest.fixture
def refusal(tmp_path, monkeypatch, capsys):
    """Runs `biaslib audit` with some options and returns the one sentence of exit code 2."""

    def run(folder, **options):
        out = tmp_path / "refused"
        given = {
            "data": folder / "images",
            "labels": folder / "labels.csv",
            "target": "green",
            "group": "red",
        } | options
        words = ["biaslib", "audit", "--out", str(out)]
        for name, value in given.items():
            values = value if isinstance(value, tuple) else (value,)
            words += [] if value is None else [f"--{name.replace('_', '-')}", *map(str, values)]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        _, said = capsys.readouterr()
        assert stopped.value.code == 2
        assert not out.exists()
        (line,) = [line for line in said.splitlines() if line]
        return line.removeprefix("biaslib: ")

    return run
