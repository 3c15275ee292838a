import queue
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

from biaslib.book.claims import Claim, above
from biaslib.chapters import page
from biaslib.statistics import Interval
from biaslib.statistics.proportions import share_interval


def test_several_numbers_are_quoted_in_order(monkeypatch):
    quoted = []
    monkeypatch.setattr(page.figures, "glue_number", lambda *arguments: quoted.append(arguments))
    page.quotes(accuracy=0.5, models=3)
    page.quotes(digits=3, accuracy=0.25)
    assert quoted == [("accuracy", 0.5, 2), ("models", 3, 2), ("accuracy", 0.25, 3)]


def test_claims_stand_with_their_marks_and_where_each_number_must_lie():
    listed = [Claim("It is so.", above("x", 0), paper="yes")]
    shown = page.claims_table(listed, record={"x": 2}, this_run=None, more="Of one world.")._repr_html_()
    for words in (
        "It is so.",
        "x: above 0",
        "holds: 2.00",
        "Does not hold: outside. Too small to tell: part inside, part outside.",
        "Of one world.",
    ):
        assert words in shown
    assert "this run" not in shown


def test_counts_are_shares_and_none_is_not_defined():
    table = pd.DataFrame({"hits": [3, None, 0], "n": [4, 4, 8]})
    some, nothing, never = page.shares(table, "hits")
    assert (some, never) == (share_interval(3, 4), share_interval(0, 8))
    assert np.isnan(nothing.estimate)
    assert nothing.n == 0


def test_rows_with_an_interval_become_columns_of_a_plot():
    rows = [{"kind": "a", "score": Interval(0.5, 0.4, 0.7, 9)}, {"kind": "b", "score": Interval(0.2, 0.1, 0.3, 4)}]
    expected = pd.DataFrame(
        {"kind": ["a", "b"], "score": [0.5, 0.2], "low": [0.4, 0.1], "high": [0.7, 0.3], "n": [9, 4]}
    )
    for given in (rows, pd.DataFrame(rows), iter(rows)):
        pd.testing.assert_frame_equal(page.unpacked(given, "score"), expected)


def test_a_table_keeps_its_index_where_it_is_unpacked():
    table = pd.DataFrame({"value": [Interval(0.5, 0.4, 0.7, 9)]}, index=pd.Index(["Bangs"], name="attribute"))
    assert page.unpacked(table).loc["Bangs"].tolist() == [0.5, 0.4, 0.7, 9]


def test_a_line_has_its_interval_as_a_band():
    rows = ({"passes": n, "value": Interval(n / 4, n / 5, n / 3, 9)} for n in (1, 2))
    (values,) = page.lines(rows, x="passes").biaslib_values
    assert values.to_dict("list") == {"passes": [1, 2], "value": [0.25, 0.5], "low": [0.2, 0.4], "high": [1 / 3, 2 / 3]}


def test_average_maps_of_models_stand_side_by_side(monkeypatch):
    drawn = {}
    monkeypatch.setattr(page.figures, "image_strip", lambda rows, *, labels: drawn.update(rows=rows, labels=labels))

    class Model:
        def __init__(self, size):
            self.size = size

        def average_map(self, attribute, rows):
            return np.full((2, 2), self.size if rows is None else np.nan)

    models = [Model(1.0), Model(3.0)]
    page.attention_strip({"all": (models, "Hat", None), "none": (models, "Hat", np.zeros(4, bool))})
    (maps,) = drawn["rows"].values()
    assert drawn["labels"] == ["all", "none"]
    np.testing.assert_array_equal(maps, [np.full((2, 2), 2.0), np.zeros((2, 2))])


def test_measures_along_a_dial_have_a_line_each(monkeypatch):
    drawn = []
    monkeypatch.setattr(page.figures, "line_plot", lambda rows, **options: drawn.append((rows, options)))
    models = pd.DataFrame({"bias": [0.5, 1.0, 0.5, 1.0], "score": [0.5, 0.25, 0.75, 0.25]})
    page.along(models, "bias", {"mask score": "score"}, x_label="bias")
    rows, options = drawn[0]
    assert rows[["bias", "what", "value", "n"]].to_numpy().tolist() == [
        [0.5, "mask score", 0.625, 2],
        [1.0, "mask score", 0.25, 2],
    ]
    assert (rows["low"] <= rows["value"]).all()
    assert (options["x"], options["by"], options["x_label"]) == ("bias", "what", "bias")


def test_ends_of_intervals_become_columns():
    table = pd.DataFrame(
        {"score": [Interval(0.5, 0.4, 0.7, 9)], "models": [3]}, index=pd.Index(["Bangs"], name="attribute")
    )
    flat = page.ends(table)
    assert list(flat.columns) == ["score", "score_low", "score_high", "models"]
    assert flat.loc["Bangs"].tolist() == [0.5, 0.4, 0.7, 3]
    assert flat.index.name == "attribute"


def test_parts_of_an_interval_are_columns_that_can_be_recalled():
    span = Interval(0.5, 0.4, 0.7, 9)
    assert page.parts(span) == {"estimate": 0.5, "low": 0.4, "high": 0.7, "n": 9}
    assert page.recalled(page.parts(span)) == span


def test_columns_become_intervals_again():
    table = pd.DataFrame({"score": [0.5], "score_low": [0.4], "score_high": [0.7]})
    assert page.spans(table, "score", 9) == [Interval(0.5, 0.4, 0.7, 9)]


def test_an_interval_of_a_record_is_read_back():
    kept = {"estimate": 0.5, "low": 0.4, "high": 0.7, "n": 9, "confidence": 0.95, "undefined": 0}
    assert page.recalled(kept) == Interval(0.5, 0.4, 0.7, 9)
    assert np.isnan(page.recalled(None))
    assert np.isnan(page.recalled({}))
    deep = page.recalled({"all": pd.DataFrame({"kind": ["a", "b"], "value": [kept, None]}), "count": 3})
    assert deep["all"]["value"][0] == Interval(0.5, 0.4, 0.7, 9)
    assert np.isnan(deep["all"]["value"][1])
    assert deep["all"]["kind"].tolist() == ["a", "b"]
    assert deep["count"] == 3


def test_the_source_of_recorded_numbers_is_named():
    record = {"preset": "real", "data": {"pets": {"models": 3}}, "device": "a GPU", "seconds": 8, "date": "2026-11-22"}
    assert page.source(record) == " Recorded run: pets (3 models), 2026-11-22."
    assert page.source(None) == " No larger run is recorded yet."


def test_numbers_have_a_true_minus_sign():
    assert page.signed(-0.126) == "−0.13"
    assert page.signed(2, "+.1f") == "+2.0"
    assert page.signed(Interval(-0.5, -0.6, -0.4, 3), ".2f") == "−0.50 [−0.60, −0.40]"


def test_attributes_have_names_that_read_well():
    assert page.readable("5_o_Clock_Shadow") == "5 o'Clock Shadow"
    assert page.readable("Wearing_Hat") == "Wearing Hat"
    assert page.short_name("Wearing_Hat") == "Hat"
    assert page.short_name("Mouth_Slightly_Open") == "Mouth open"


def test_metrics_have_short_names():
    assert page.short_metric("Integrated gradients, mass in the cue") == "IG, mass in the cue"
    assert page.short_metric("Sensitivity, exact counterfactuals") == "True causal effect"


CELL = """
from IPython.display import HTML
from biaslib.chapters import page

def show(strength, size):
    return HTML(f"computed at {strength} {size}")

dial = page.live_dial(show, strength=[0.0, 0.5, 1.0], size=[32])
dial
"""


@pytest.fixture
def kernel(monkeypatch) -> Iterator[BlockingKernelClient]:
    monkeypatch.delenv("BIASLIB_PAGE", raising=False)
    manager: KernelManager
    manager, client = start_new_kernel()
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def said(client: BlockingKernelClient, message: str) -> str:
    """All that a kernel says, printed or as an update of a widget, until it has dealt with a message."""
    texts = []
    while True:
        try:
            reply = client.get_iopub_msg(timeout=30)
        except queue.Empty:
            pytest.fail(f"the kernel fell silent after {texts}", pytrace=False)
        if reply["parent_header"].get("msg_id") == message:
            texts.append(str(reply["content"]))
            if reply["content"].get("execution_state") == "idle":
                return "\n".join(texts)


def test_a_slider_that_is_moved_in_the_browser_computes_anew(kernel):
    shown = said(kernel, kernel.execute(CELL))
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert "computed at 0.0 32" in shown
    model = said(kernel, kernel.execute("print('model', dial.children[0].comm.comm_id)"))
    comm = model.partition("model ")[2].split("\\n")[0]
    moved = {"comm_id": comm, "data": {"method": "update", "state": {"index": 1}, "buffer_paths": []}}
    message = kernel.session.msg("comm_msg", moved)
    kernel.shell_channel.send(message)
    assert "computed at 0.5 32" in said(kernel, message["header"]["msg_id"])


def test_on_a_page_there_is_no_dial_that_nobody_answers(monkeypatch):
    monkeypatch.setenv("BIASLIB_PAGE", "1")
    assert page.live_dial(print, strength=[0, 1]) is None


def test_changes_of_scores_near_one_half_and_of_answers():
    before, after = np.array([[0.2, 0.4, 0.6], [0.1, 0.5, 0.9]]), np.array([[0.4, 0.6, 0.7], [0.3, 0.4, 0.8]])
    found = page.changes(before, after, seed=0)
    assert found["score"].estimate == pytest.approx(np.mean(after - before))
    assert found["near"].estimate == pytest.approx((0.2 + 0.1 - 0.1) / 3)
    assert (found["near"].n, found["near"].undefined) == (3, 3)
    assert found["answer"].estimate == 0.0  # one more smile, and one less
    assert all(-1 <= span.low <= span.estimate <= span.high <= 1 for span in found.values())
