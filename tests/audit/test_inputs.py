import gzip

import numpy as np
import pandas as pd
import pytest

from biaslib.audit.inputs import Binary, _read, read_labels
from biaslib.audit.pictures import check_files
from biaslib.audit.records import AuditOptions
from biaslib.errors import BiaslibError

TABLE = pd.DataFrame({"file": ["a.png", "b.png", "c.png"], "smile": [1, 0, 1], "old": ["yes", "no", "no"]})


def told(table=TABLE, **given):
    subject = {} if "predictions" in given else {"model": "small", "data": "images"}
    return read_labels(AuditOptions(labels=table, **({"target": "smile", "groups": ["old"]} | subject | given)))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0, 1], ("not x", "x")),
        ([-1, 1], ("not x", "x")),
        ([0.0, 1.0], ("not x", "x")),
        (["no", "yes"], ("not x", "x")),
        ([False, True], ("not x", "x")),
        (["False", "True"], ("not x", "x")),
        (["cat", "dog"], ("cat", "dog")),
        ([2, 10], ("x 2", "x 10")),
    ],
)
def test_two_values_of_any_kind_are_read_the_smaller_as_no(values, words):
    column = pd.Series(values[::-1] + values)
    found = Binary.of("x", column)
    assert found.words == words
    np.testing.assert_array_equal(found.read(column, what="labels"), [True, False, False, True])


def test_csv_and_parquet_say_the_same(tmp_path):
    table = TABLE.assign(file=["001", "002", "003"])
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    one, two = (told(tmp_path / name) for name in ("t.csv", "t.parquet"))
    assert one.files == two.files == ("001", "002", "003")
    pd.testing.assert_frame_equal(one.labels, two.labels)


def test_the_column_of_names_is_known_or_the_first_or_named():
    assert told(TABLE[["smile", "old", "file"]]).files == ("a.png", "b.png", "c.png")
    assert told(TABLE.rename(columns={"file": "who"})).files == ("a.png", "b.png", "c.png")
    table = TABLE.assign(other=["x.png", "y.png", "z.png"])
    assert told(table, file_column="other").files == ("x.png", "y.png", "z.png")


def test_predictions_come_from_a_column_or_from_a_table_in_any_order(tmp_path):
    assert told(TABLE.assign(said=[1, 1, 0]), predictions="said").predicted["smile"].tolist() == [True, True, False]
    other = pd.DataFrame({"file": ["c.png", "a.png", "b.png"], "smile": [0, 1, 1], "old": ["no", "yes", "yes"]})
    found = told(predictions=other).predicted
    assert found["smile"].tolist() == [True, True, False]
    assert found["old"].tolist() == [True, True, False]
    other.to_csv(tmp_path / "said.csv", index=False)
    pd.testing.assert_frame_equal(told(predictions=str(tmp_path / "said.csv")).predicted, found)


@pytest.mark.parametrize(
    ("table", "given", "said"),
    [
        (TABLE, {"target": "grin"}, "no column 'grin' in the table of labels: it has file, smile, old"),
        (TABLE, {"groups": []}, "no group to compare"),
        (TABLE, {"groups": ["smile"]}, "must be different columns"),
        (TABLE, {"file_column": "name"}, "no column 'name'"),
        (TABLE.assign(smile=1), {}, "'smile' is '1' in every row"),
        (TABLE.assign(smile=[1, 2, 3]), {}, "has 3 values \\(1, 2, 3\\), and an audit compares two"),
        (TABLE.assign(old=["yes", None, "no"]), {}, "1 of 3 rows have no value in 'old'"),
        (TABLE.assign(file=["a.png", "a.png", "c.png"]), {}, "1 names stand twice in column 'file' \\(a.png\\)"),
        (TABLE.assign(file=["a.png", "../b.png", "c.png"]), {}, "'../b.png' in column 'file' is not inside"),
        (TABLE.assign(file=["a.png", None, "c.png"]), {}, "1 rows have no name"),
        (TABLE, {"predictions": "said"}, "neither a column nor a file 'said'"),
        (TABLE.assign(said=[0.2, 0.7, 0.1]), {"predictions": "said"}, "hold '0.1', but the labels '0' and '1'"),
        (TABLE, {"predictions": TABLE.head(2)}, "1 of 3 images have no prediction \\(c.png\\)"),
        (TABLE, {"predictions": TABLE[["file", "old"]]}, "no column 'smile' in the table of predictions"),
        (TABLE, {"train_labels": TABLE.assign(smile=1)}, "one value only in the training labels"),
        (TABLE, {"train_labels": TABLE[["smile"]]}, "no column 'old' in the table of training labels"),
    ],
)
def test_what_does_not_fit_is_one_sentence(table, given, said):
    with pytest.raises(BiaslibError, match=said):
        told(table, **given)


def test_scores_take_a_threshold_in_a_column_and_in_a_table():
    table = TABLE.assign(score=["0.2", "0.5", "0.9"])
    assert list(told(table, predictions="score", threshold=0.5).predicted["smile"]) == [False, False, True]
    logits = TABLE[["file"]].assign(smile=[-3.0, 2.0, 0.5], old=["no", "yes", "yes"])
    both = told(TABLE, predictions=logits, threshold=1.0).predicted
    # the group's are written as its labels are
    assert both.to_dict("list") == {"smile": [False, True, False], "old": [False, True, True]}
    scores = logits.assign(old=[0.4, 1.5, 3.0])
    assert list(told(TABLE, predictions=scores, threshold=1.0).predicted["old"]) == [False, True, True]


@pytest.mark.parametrize("wrong", ["", "yes", "nan", "inf"])
def test_a_score_that_is_no_number_is_refused(wrong):
    with pytest.raises(BiaslibError, match="1 of 3 predictions of 'smile' are no finite numbers"):
        told(TABLE.assign(score=["0.2", wrong, "0.9"]), predictions="score", threshold=0.5)


def test_files_that_are_no_tables_are_refused(tmp_path):
    with pytest.raises(BiaslibError, match="There is no table"):
        _read(tmp_path / "none.csv")
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(BiaslibError, match="cannot be read as parquet"):
        _read(tmp_path / "bad.parquet")
    (tmp_path / "empty.csv").write_text("file,smile\n")
    with pytest.raises(BiaslibError, match="has no rows"):
        _read(tmp_path / "empty.csv")
    (tmp_path / "nothing.csv").write_text("")
    with pytest.raises(BiaslibError, match="cannot be read as CSV"):
        _read(tmp_path / "nothing.csv")


def test_missing_images_are_counted_and_others_are_named(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "masks").mkdir()
    for name in ("a.png", "in/b.JPG", "c.txt", "masks/a.png"):
        (tmp_path / name).touch()
    assert check_files(tmp_path, ["a.png"], leave_out=tmp_path / "masks") == ("in/b.JPG",)
    assert check_files(tmp_path, ["a.png", "./in/b.JPG"]) == ("masks/a.png",)
    with pytest.raises(BiaslibError, match=r"4 of 5 images .* \(b.png, d.png, e.png, ...\)"):
        check_files(tmp_path, ["a.png", "b.png", "d.png", "e.png", "f.png"])
    with pytest.raises(BiaslibError, match="There is no folder"):
        check_files(tmp_path / "nowhere", ["a.png"])


TEXT = "file,smile,old\n001,1,yes\n002,0,no\n003,1,no\n"


@pytest.mark.parametrize(
    ("name", "separator"), [("t.csv.gz", ","), ("t.tsv", "\t"), ("t.tsv.gz", "\t"), ("T.TSV", "\t"), ("T.CSV.GZ", ",")]
)
def test_tables_with_tabs_and_compressed_ones_say_the_same(tmp_path, name, separator):
    content = TEXT.replace(",", separator).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.lower().endswith("gz") else content)
    (tmp_path / "plain.csv").write_text(TEXT)
    pd.testing.assert_frame_equal(_read(tmp_path / name), _read(tmp_path / "plain.csv"))
    assert _read(tmp_path / name)["file"].tolist() == ["001", "002", "003"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.csv", TEXT.replace(",", ";"), r"t\.csv is separated by semicolons: save it with commas"),
        ("t.csv", "file;score;old\n001;0,5;yes\n002;0,25;no\n", "is separated by semicolons"),
        ("t.csv", "file;a, b;old\n001;1;yes\n002;0;no\n", "is separated by semicolons"),
        ("t.csv", "file;old\n001;yes,no,perhaps\n002;no\n003;a,b\n", "is separated by semicolons"),
        ("t.csv", TEXT.replace(",", "\t"), r"is separated by tabs: save it with commas, or with the ending \.tsv"),
        ("t.tsv", TEXT, r"is separated by commas: save it with tabs, or with the ending \.csv"),
        ("t.tsv", TEXT.replace(",", ";"), "is separated by semicolons"),
        ("t.csv", "file,smile,old\n001,1,yes,\n002,0,no,\n", "more values than its first line has names"),
        ("t.csv", "file,smile,old\n001,x,1,yes\n002,y,0,no\n", "more values than its first line has names"),
        ("t.xlsx", "PK", r"t\.xlsx is not read: .*\.csv, \.tsv.*parquet.* save it as CSV"),
        ("t.json", "{}", r"t\.json is not read: .* save it as CSV"),
        ("t.txt", TEXT, r"t\.txt is not read: .* save it as CSV"),
        ("labels", TEXT, r"labels is not read: .* save it as CSV"),
        ("t.csv.gz", TEXT, r"t\.csv\.gz cannot be read as CSV"),
        ("t.csv.zip", TEXT, r"t\.csv\.zip is not read"),
    ],
)
def test_a_table_of_another_kind_is_refused_for_the_right_reason(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(BiaslibError, match=said):
        _read(tmp_path / name)


def test_a_semicolon_in_the_name_of_a_column_is_allowed(tmp_path):
    (tmp_path / "t.csv").write_text("file,smile;laugh\n001,1\n")
    assert list(_read(tmp_path / "t.csv")) == ["file", "smile;laugh"]


def test_a_gzip_that_is_cut_off_is_one_sentence(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TEXT.encode() * 99)[:-20])
    with pytest.raises(BiaslibError, match="cannot be read as CSV"):
        _read(tmp_path / "t.csv.gz")


@pytest.mark.parametrize(("name", "said"), [("t.xlsx", "save it as CSV"), ("t.csv", "separated by semicolons")])
def test_the_command_says_so_in_one_sentence(tmp_path, refusal, name, said):
    (tmp_path / name).write_text(TEXT.replace(",", ";"))
    assert said in refusal(tmp_path, labels=tmp_path / name, data=None, predictions="smile")
