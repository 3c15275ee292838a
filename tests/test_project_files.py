"""The files around the package say the same thing."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_contents_list_every_notebook_and_no_other():
    contents = (ROOT / "book" / "_toc.yml").read_text()
    notebooks = {file.stem for file in (ROOT / "notebooks").glob("*.md")}
    assert set(re.findall(r"_executed/(\w+)", contents)) == notebooks


def test_presets_name_notebooks_that_exist_and_parameters_that_they_have():
    from biaslib.book import Project, execution, parameters

    project = Project(ROOT)
    names = parameters._preset_names(project)
    assert {"smoke", "quick", "real", "gpu", "paper"} <= set(names)
    for preset in names:
        for notebook, given in parameters.from_preset(project, preset).items():
            defaults = parameters.declared(execution.read(project, notebook), name=notebook)
            parameters.checked(given, defaults, name=notebook)


def test_every_citation_has_its_entry():
    entries = set(re.findall(r"^@\w+\{([^,]+),", (ROOT / "book" / "references.bib").read_text(), re.MULTILINE))
    pages = [*(ROOT / "book").glob("*.md"), *(ROOT / "notebooks").glob("*.md")]
    cited = {
        key.strip()
        for page in pages
        for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", page.read_text())
        for key in keys.split(",")
    }
    assert cited <= entries
    assert entries - cited <= {"zhao2017men", "wang2021directional"}, "an entry that nothing cites"
