"""Writes the board's trained models as wheels, a world each, in place of which nobody has to train them again.

    python -m tools.zoo OUT [--world birds ...]

The models are those that the submissions in `data/submissions` ask for, from the store; what it lacks is trained. The
same models give the same bytes. The hashes that it prints stand in `biaslib/dial/zoo.toml`: a model of another table is
refused. After a change of what the protocol freezes, give that another name first.
"""

import argparse
import base64
import csv
import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import safetensors.torch

from biaslib import recipes
from biaslib.dial import board
from biaslib.dial.measuring import balanced
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError, check_known
from biaslib.store import replacing
from biaslib.worlds import is_file

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 20_000_000  # bytes of a wheel
VERSION = board.PROTOCOL.removeprefix("dial-")
SITE = "https://biaslib.github.io/biaslib"
LICENCE = "Apache-2.0"
_OLDEST = (1980, 1, 1, 0, 0, 0)  # the time of every file, so that the same models give the same bytes
_README = """\
# The zoo of {protocol}: {world}

{models} small image classifiers with a bias of known strength, for which metrics of bias are compared ({site}, *The
leaderboard*). Each answers: {target}. The cue that it may lean on: {cue}.

* `models.csv`: a row a model, with its file, the SHA-256 of that, and everything that it was trained with. `strength`
  is the correlation of target and cue among its training images. At 0 the model is an unbiased reference.
* `weights/*.safetensors`: the weights, float32. No file here holds code.
* `factors.csv`: a row a test image, with all that is drawn in it. No picture is kept: `biaslib` draws them again.
* `croissant.json`: the same for machines. `SHA256SUMS`: `sha256sum -c SHA256SUMS` says whether the copy is whole.

Install the wheel, and `biaslib dial run` takes the models from it. Or read them yourself:

    import pandas
    import safetensors.torch
    from biaslib import models, worlds

    model = models.build("{architecture}", {outputs})
    weights = safetensors.torch.load_file("weights/1.0-00.safetensors")
    model.load_state_dict({{name: of for name, of in weights.items() if not name.startswith("criterion/")}})
    pictures = worlds.get("{world}").render(pandas.read_csv("factors.csv")).images

All pictures are drawn by a program: no person, no photograph and nobody's data are in them. The models are biased on
purpose. Use them to test measures of bias, and for nothing else. Licence: {licence}.
"""
_METADATA = """\
Metadata-Version: 2.4
Name: biaslib-zoo-{world}
Version: {version}
Summary: {models} trained models of the world {world}, for {protocol} of biaslib.
License-Expression: {licence}
License-File: LICENSE
Project-URL: Documentation, {site}
Description-Content-Type: text/markdown

"""
_WHEEL = "Wheel-Version: 1.0\nGenerator: tools.zoo\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def asked_for() -> list[Trial]:
    """The trials of all submissions, each once, in their order."""
    found = dict[Trial, None]()
    for file in sorted(ROOT.glob("data/submissions/*/submission.json")):
        asked = json.loads(file.read_text(encoding="utf-8"))["asked"]
        names = [name for name in pd.read_csv(file.with_name("numbers.csv"))["world"].unique() if not is_file(name)]
        if "architecture" not in asked:  # the zoo has the worlds' own networks
            found |= dict.fromkeys(board.trials(names, **asked))
    return list(found)


def files_of(trials: Sequence[Trial]) -> dict[str, bytes]:
    """What the zoo of one world holds, by name. Trials that differ in their test images alone are one model."""
    alone = {trial.recipe: trial for trial in reversed(trials)}
    trials = list(reversed(alone.values()))
    files, rows = {}, []
    for trial, weights in zip(trials, recipes.train.many([trial.recipe for trial in trials]), strict=True):
        name = f"weights/{trial.strength:.1f}-{trial.seed:02}.safetensors"
        if name in files:
            raise BiaslibError(f"Two models would be {name}: the submissions ask for different trainings of one model.")
        files[name] = safetensors.torch.save(weights)
        rows.append({"file": name, "sha256": _sha256(files[name]), **board.settings(trial)})
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    factors = balanced(trials[0])
    config, place = trials[0].recipe.training, trials[0].place
    files["factors.csv"] = factors.to_csv(index=False, lineterminator="\n").encode()
    files["models.csv"] = text.getvalue().encode()
    files["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    readme = _README.format(
        protocol=board.PROTOCOL, world=trials[0].world, models=len(trials), site=SITE, target=place.target,
        cue=place.cue, architecture=config.architecture, outputs=config.outputs, licence=LICENCE,
    )  # fmt: skip
    files["README.md"] = readme.encode()
    files["croissant.json"] = _json(croissant(trials[0].world, len(trials), files, rows[0], factors))
    sums = "".join(f"{_sha256(data)}  {name}\n" for name, data in sorted(files.items()))
    return files | {"SHA256SUMS": sums.encode()}


def croissant(
    world: str, models: int, files: dict[str, bytes], row: dict[str, str], factors: pd.DataFrame
) -> dict[str, Any]:
    """The metadata of a zoo, in Croissant 1.0 with words on responsible use (RAI 1.0)."""
    kinds = {"b": "sc:Boolean", "f": "sc:Float", "i": "sc:Integer", "u": "sc:Integer"}
    tables = {
        "models.csv": dict.fromkeys(row, "sc:Text") | {"strength": "sc:Float", "seed": "sc:Integer"},
        "factors.csv": {str(name): kinds[kind.kind] for name, kind in factors.dtypes.items()},
    }
    objects = [
        {"@type": "cr:FileObject", "@id": name, "name": name, "contentUrl": name, "encodingFormat": kind,
         "sha256": _sha256(files[name])}
        for name, kind in {
            **dict.fromkeys(tables, "text/csv"),
            **dict.fromkeys([name for name in files if name.startswith("weights/")], "application/octet-stream"),
        }.items()
    ]  # fmt: skip
    records = [
        {"@type": "cr:RecordSet", "@id": file.removesuffix(".csv"), "name": file.removesuffix(".csv"),
         "field": [
             {"@type": "cr:Field", "@id": f"{file.removesuffix('.csv')}/{name}", "name": name, "dataType": kind,
              "source": {"fileObject": {"@id": file}, "extract": {"column": name}}}
             for name, kind in columns.items()
         ]}
        for file, columns in tables.items()
    ]  # fmt: skip
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": f"biaslib-zoo-{world}",
        "description": f"{models} trained image classifiers of the generated world {world}, with a bias of known "
        f"strength, by which metrics of bias are compared under {board.PROTOCOL}.",
        "version": f"{VERSION}.0",
        "datePublished": "2026-11-27",
        "license": f"https://spdx.org/licenses/{LICENCE}.html",
        "url": SITE,
        "creator": {"@type": "sc:Organization", "name": "The biaslib developers"},
        "citeAs": f"The biaslib developers: the zoo of {board.PROTOCOL}, {world}. {SITE}",
        "keywords": ["bias", "benchmark", "image classification", "trained models", "synthetic data"],
        "isLiveDataset": False,
        "rai:dataCollection": "Networks trained on pictures that a program draws from tables of random factors. "
        "models.csv has all settings; factors.csv has the factors of the test pictures.",
        "rai:dataCollectionType": "Others: generated by a program",
        "rai:personalSensitiveInformation": "None. The pictures are drawn, and show no person.",
        "rai:dataBiases": "Intended: target and cue are correlated in the training images by the strength in "
        "models.csv. Test pictures have no such correlation.",
        "rai:dataUseCases": "To find out which bias a metric detects, and how often it reports an unbiased model.",
        "rai:dataLimitations": "Small networks and drawn pictures: what holds here need not hold for photographs. The "
        "models answer no question of use elsewhere.",
        "rai:dataReleaseMaintenancePlan": "Frozen with its protocol. A change gets another name of the protocol.",
        "distribution": objects,
        "recordSet": records,
    }


def wheel(world: str, models: int, files: dict[str, bytes]) -> bytes:
    """A wheel of these files in a folder `biaslib_zoo_WORLD`, without code, the same bytes each time."""
    folder, info = f"biaslib_zoo_{world}", f"biaslib_zoo_{world}-{VERSION}.dist-info"
    metadata = _METADATA.format(
        world=world, version=VERSION, models=models, protocol=board.PROTOCOL, licence=LICENCE, site=SITE
    )
    inside = {f"{folder}/{name}": data for name, data in sorted(files.items())}
    inside |= {f"{info}/METADATA": metadata.encode() + files["README.md"], f"{info}/WHEEL": _WHEEL.encode()}
    inside |= {f"{info}/licenses/LICENSE": files["LICENSE"]}
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()) for name, data in inside.items()}
    lines = [f"{name},sha256={digests[name].rstrip(b'=').decode()},{len(inside[name])}\n" for name in inside]
    inside |= {f"{info}/RECORD": "".join([*lines, f"{info}/RECORD,,\n"]).encode()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as opened:
        for name, data in inside.items():
            member = zipfile.ZipInfo(name, date_time=_OLDEST)
            member.compress_type, member.external_attr, member.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            opened.writestr(member, data)
    return packed.getvalue()


def make(out: Path, trials: Sequence[Trial], *, largest: int = LARGEST) -> dict[str, Path]:
    """The wheel of each world of these trials, written into a folder. One that is too large is a `BiaslibError`."""
    made = {}
    for world in dict.fromkeys(trial.world for trial in trials):
        files = files_of([trial for trial in trials if trial.world == world])
        models = sum(name.startswith("weights/") for name in files)
        packed = wheel(world, models, files)
        if len(packed) > largest:
            raise BiaslibError(
                f"The wheel of {world} has {len(packed):,} bytes, and at most {largest:,} are allowed: ask for fewer "
                "models of it."
            )
        made[world] = out / f"biaslib_zoo_{world}-{VERSION}-py3-none-any.whl"
        with replacing(made[world]) as partial:
            partial.write_bytes(packed)
        print(f'{world} = "{_sha256(files["models.csv"])}"  # {models} models, {len(packed):,} bytes', flush=True)
    return made


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _json(said: dict[str, Any]) -> bytes:
    return (json.dumps(said, indent=1, ensure_ascii=False) + "\n").encode()


_TERMS = """citeAs column equivalentProperty extract field fileObject fileProperty fileSet format includes isLiveDataset
jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source subField
transform"""
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}


def main() -> None:
    """Writes the wheels that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder for the wheels")
    parser.add_argument("--world", action="append", help="one of the board; may be repeated; else all")
    given = parser.parse_args()
    try:
        trials = asked_for()
        for world in given.world or ():
            check_known("a world of the board", world, dict.fromkeys(trial.world for trial in trials))
        made = make(given.out, [trial for trial in trials if trial.world in (given.world or [trial.world])])
    except BiaslibError as error:
        parser.error(str(error))
    print(f"{len(made)} wheels in {given.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
