"""What the pages say of the papers and of their own records: sentences that were wrong once do not come back."""

import json
import re

import pytest
import scipy.stats

from biaslib.book import find_project, recorded
from biaslib.figures.pieces import raw_markup
from tests.book.conftest import RUN

# file, what it said, and why that was wrong
WRONG = [
    ("notebooks/balanced.md", "three planted sets are nearer or turned", "a model that errs moves every share"),
    ("notebooks/balanced.md", "until within $\\epsilon$ | the same", "the release duplicates until groups are equal"),
    ("notebooks/mitigation.md", "depends on the metric and on the data*", "one generator made both data sets"),
    ("notebooks/mitigation.md", "Yet data repair has the smallest number", "the recorded run cannot say so, p = .65"),
    ("notebooks/mitigation.md", "All of them move single objects", "typed, and no run is asked"),
    ("notebooks/drivers.md", "one of the three stays, the others rise", "the paper says which"),
    ("notebooks/digits.md", "none for this experiment", "network and scaling are released"),
    (
        "notebooks/amplification.md",
        "| $1/(\\lvert G\\rvert - 1)$, which no",
        "the version behind the values divides by columns",
    ),
    ("book/reproduction.md", "| one over the number of groups less one, so that", "only the last version does"),
    (
        "book/reproduction.md",
        "as many predicted as labelled, on validation data | as the code",
        "the script takes test labels",
    ),
    ("book/reproduction.md", "because on photographs the effect is unknown", "Waterbirds are pasted"),
    ("book/reproduction.md", "| the target's output | its absolute value |", "the paper states the absolute value"),
    ("book/reproduction.md", "released tables only", "a chapter trains two networks"),
    ("book/reproduction.md", "| the library's map is enlarged to the image |", "not for mask scores"),
    ("book/index.md", "a measure that is right about order", "within one bias it is not"),
    ("book/index.md", "that no paper could ask", "Waterbirds could have been asked"),
    ("notebooks/waterbirds.md", "So the ranking is mostly right", "within one bias it is not"),
    ("notebooks/waterbirds.md", "which no photograph can tell", "Waterbirds are pasted"),
    ("notebooks/waterbirds.md", "In photographs the second picture does not exist", "Waterbirds are pasted"),
    ("notebooks/released_predictions.md", "the models exaggerate what is annotated", "noise in labels does the same"),
    ("notebooks/released_predictions.md", "Seventeen points cannot tell", "the exact test has p = .027"),
    ("notebooks/released_predictions.md", "that thirty networks gave", "twenty more were released"),
    ("notebooks/what_is_bias.md", "faster and faster", "typed, one model a strength"),
    ("notebooks/hidden_confounder.md", "without saying over what", "the paper says the training set's"),
    ("notebooks/real_faces.md", "| the map's | 224 × 224 | the map's |", "not for mask scores"),
    ("notebooks/real_faces.md", "ResNet-50, one linear layer (`paper`)", "the preset has the paper's hidden layer"),
    ("notebooks/mask_scores.md", "| map enlarged, by default |", "not by the commands for mask scores"),
    ("notebooks/co_location.md", "scores of several models | several of each", "they are models of 40 attributes"),
    ("notebooks/co_location.md", "(released: {glue:text}", "the released scores are of the map of Eyeglasses"),
    ("biaslib/datasets/published.py", "models trained for Male only", "they are models of 40 attributes"),
]
# file, and what it now has to say
SAID = [
    ("biaslib/datasets/published.py", "all 40 attributes, so they are models of 40"),
    ("biaslib/metrics/precision.py", "takes the thresholds on the test labels"),
    ("biaslib/metrics/amplification.py", "the released code leaves them out of it"),
    ("biaslib/metrics/amplification.py", "divides by the number of group columns"),
    ("notebooks/co_location.md", "the released ones answer all 40 attributes"),
    ("notebooks/co_location.md", "the files of these models hold scores of the map of *Eyeglasses*"),
    ("notebooks/heatmap_scores.md", "our scores and the published scores are on different grids"),
    ("notebooks/attention_iou.md", "The command for *heatmap* scores does not have it"),
    ("notebooks/real_faces.md", "89 × 109 pixels, half of the official size"),
    ("notebooks/real_faces.md", "each network's own minimum, then the mean"),
    ("notebooks/real_faces.md", "are among CelebA's own training faces"),
    ("notebooks/mitigation.md", "| binary cross-entropy of every column, those of the group too |"),
    ("notebooks/architectures.md", "Two whole ensembles of one network should agree even better"),
    ("data/datasheets/celeba.md", "at 89 × 109"),
    ("data/datasheets/attention-iou.md", "10 trained only on images without"),
    ("book/reproduction.md", "which is never above the other"),
]


def text_of(file):
    text = " ".join((find_project().root / file).read_text(encoding="utf-8").split())
    return re.sub(r'" f?"', "", text)  # a long string of a cell stands in parts


@pytest.mark.parametrize(("file", "sentence", "why"), WRONG)
def test_a_false_sentence_is_gone(file, sentence, why):
    assert sentence not in text_of(file), why


@pytest.mark.parametrize(("file", "sentence"), SAID)
def test_a_missing_fact_is_said(file, sentence):
    assert sentence in text_of(file)


def test_set_sizes_go_as_the_page_says_of_its_record():
    assert "group → attributes falls by {glue:text}`size_ga`; the paper says that it rises." in text_of(
        "notebooks/drivers.md"
    )
    numbers = recorded.get("drivers", "standard")["values"]["numbers"]
    by_kind = {
        kind: numbers[f"largest less smallest set, {kind}"]
        for kind in ("undirected", "group → attributes", "attributes → group")
    }
    assert by_kind["undirected"]["low"] > 0
    assert by_kind["group → attributes"]["high"] < 0 < by_kind["attributes → group"]["low"]


def test_within_one_bias_the_bird_score_orders_no_models():
    assert "Among models of the same share they do not." in text_of("notebooks/waterbirds.md")
    models = recorded.get("waterbirds", "standard")["values"]["models"]
    assert scipy.stats.kendalltau(-models["bird score"], models["causal effect"]).statistic > 0.6
    taus = {
        bias: scipy.stats.kendalltau(-rows["bird score"], rows["causal effect"]).statistic
        for bias, rows in models.groupby("bias")
    }
    assert max(tau for bias, tau in taus.items() if bias <= 0.8) < 0.05
    assert max(taus.values()) < 0.5


def test_no_sentence_quotes_three_numbers():
    pages = [*find_project().notebooks.glob("*.md"), *(find_project().root / "book").glob("*.md")]
    sentences = [
        part
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if not line.startswith("|")
        for part in re.split(r"(?<=[.!?])\s", line)
    ]
    assert max(sentence.count("{glue:") for sentence in sentences) == 2  # the count does see what is quoted
    assert [sentence[:80] for sentence in sentences if sentence.count("{glue:") > 2] == []


def shown(output):
    """The words of an output as a reader sees them: no code, styles, scripts or tags."""
    data = output.get("data", {})
    text = "".join(data.get("text/html", [])) + "".join(data.get("application/papermill.record/text/plain", []))
    return re.sub(r"<(style|script|code|pre)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)


def test_markup_in_an_output_would_be_seen():
    assert raw_markup(shown({"data": {"text/html": ["<p>see [it](a.md)</p>"]}}))
    assert raw_markup(shown({"data": {"application/papermill.record/text/plain": "'the `name`'"}}))
    assert not raw_markup(shown({"data": {"text/html": ["<p><code>a</code> [0, 1] (b)<script>`x`</script></p>"]}}))


@pytest.mark.parametrize("name", RUN)
def test_no_page_shows_raw_markup(smoke_book, name):
    executed = json.loads((smoke_book.project.executed / f"{name}.ipynb").read_text())
    outputs = [output for cell in executed["cells"] for output in cell.get("outputs", ())]
    assert [text for text in map(shown, outputs) if raw_markup(text)] == []
