import gzip

import numpy as np
import pandas as pd
import pytest

from biaslib.audit.inputs import Binary, read_labels
from biaslib.audit.pictures import check_files
from biaslib.audit.records import AuditOptions
from biaslib.audit.tables import read
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
        (["FALSE", 1], ("not x", "x")),
        (["No", "YES"], ("not x", "x")),
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
        (
            TABLE.assign(old=["yes", None, "no"]),
            {},
            "1 of 3 rows have no value in 'old': .* leave them out with --drop-mis",
        ),
        (TABLE.assign(old=["yes", " ", "no"]), {}, "1 of 3 rows have no value in 'old'"),
        (TABLE.assign(old=["yes", "NA", "no"]), {}, "1 of 3 rows have no value in 'old'"),
        (TABLE.assign(old=[None] * 3), {"drop_missing": True}, "3 of 3 rows have no value in 'old'"),
        (TABLE, {"groups": ["old", "old"]}, "must be different columns, not smile, old, old"),
        (TABLE, {"cluster": "old"}, "must be different columns, not smile, old, old"),
        (TABLE, {"cluster": "patient"}, "no column 'patient' in the table of labels"),
        (TABLE, {"bins": {"age": [18]}}, r"edges that grow, such as age=18,40,65, not age=\[18\]"),
        (TABLE, {"bins": {"old": [40, 18]}}, "edges that grow"),
        (TABLE, {"bins": {"old": ["x"]}}, "edges that grow"),
        (TABLE, {"bins": {"old": []}}, "edges that grow"),
        (TABLE, {"bins": {"old": [18]}}, "labels of 'old' are not all numbers"),
        (TABLE, {"intersections": True}, "There are 0 combinations, not 1 to 12: leave --intersections out"),
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
        read(tmp_path / "none.csv")
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(BiaslibError, match="cannot be read as parquet"):
        read(tmp_path / "bad.parquet")
    (tmp_path / "empty.csv").write_text("file,smile\n")
    with pytest.raises(BiaslibError, match="has no rows"):
        read(tmp_path / "empty.csv")
    (tmp_path / "nothing.csv").write_text("")
    with pytest.raises(BiaslibError, match="cannot be read as CSV"):
        read(tmp_path / "nothing.csv")


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
    pd.testing.assert_frame_equal(read(tmp_path / name), read(tmp_path / "plain.csv"))
    assert read(tmp_path / name)["file"].tolist() == ["001", "002", "003"]


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
        read(tmp_path / name)


def test_a_semicolon_in_the_name_of_a_column_is_allowed(tmp_path):
    (tmp_path / "t.csv").write_text("file,smile;laugh\n001,1\n")
    assert list(read(tmp_path / "t.csv")) == ["file", "smile;laugh"]


def test_a_gzip_that_is_cut_off_is_one_sentence(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TEXT.encode() * 99)[:-20])
    with pytest.raises(BiaslibError, match="cannot be read as CSV"):
        read(tmp_path / "t.csv.gz")


@pytest.mark.parametrize(("name", "said"), [("t.xlsx", "save it as CSV"), ("t.csv", "separated by semicolons")])
def test_the_command_says_so_in_one_sentence(tmp_path, refusal, name, said):
    (tmp_path / name).write_text(TEXT.replace(",", ";"))
    assert said in refusal(tmp_path, labels=tmp_path / name, data=None, predictions="smile")


SKIN = pd.DataFrame(
    {
        "file": [f"{row}.png" for row in range(12)],
        "smile": [0, 1] * 6,
        "old": ["yes"] * 5 + ["no"] * 7,
        "skin": ["I", "II", "III", "IV"] * 3,
        "age": [17, 18, 39, 40, 64, 65, 30, 30, 50, 50, 90, 10],
        "patient": [3, 3, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3],
    }
)


def test_each_of_many_values_is_a_group_against_all_others():
    read = told(SKIN, groups=["old", "skin"])
    assert [group.name for group in read.groups] == ["old", "skin I", "skin II", "skin III", "skin IV"]
    assert read.groups[4].words == ("not skin IV", "skin IV")
    assert read.labels["skin IV"].tolist() == [False, False, False, True] * 3
    # two values stay what they are
    assert told(SKIN).groups == (Binary("old", ("no", "yes"), ("not old", "old")),)


def test_many_values_are_read_in_predictions_and_training_labels_too():
    said = SKIN[["file", "smile"]].assign(skin=SKIN["skin"].replace("IV", "I"))
    read = told(SKIN, groups="skin", predictions=said, train_labels=SKIN)
    assert read.predicted["skin I"].tolist() == [True, False, False, True] * 3
    assert not read.predicted["skin IV"].any()
    pd.testing.assert_frame_equal(read.train, read.labels)
    with pytest.raises(BiaslibError, match="predictions of 'skin' hold 'V', which the labels do not"):
        told(SKIN, groups="skin", predictions=said.assign(skin="V"))
    with pytest.raises(BiaslibError, match="'skin IV' has one value only in the training labels"):
        told(SKIN, groups="skin", train_labels=SKIN[SKIN["skin"] != "IV"])


def test_an_output_of_the_model_is_for_a_group_of_two_values():
    with pytest.raises(BiaslibError, match="An output tells a group of two values"):
        told(SKIN, groups=["skin"], output=0, group_outputs=[1])


def test_too_many_values_are_refused_with_what_to_do():
    table = pd.DataFrame({"file": range(26), "smile": [0, 1] * 13, "age": range(26), "site": list("abcdefghijklm") * 2})
    with pytest.raises(BiaslibError, match="'age' has 26 values, more than 12: give --bins age=18,40,65"):
        told(table, groups="age")
    with pytest.raises(BiaslibError, match="'site' has 13 values, more than 12: put some of them together"):
        told(table, groups="site")


def test_bins_hold_their_lower_edge():
    read = told(SKIN, groups="age", bins={"age": [18, 40, 65]})
    assert [group.words[1] for group in read.groups] == [
        "age below 18", "age 18 to 40", "age 40 to 65", "age 65 or more"
    ]  # fmt: skip
    by_hand = [0, 1, 1, 2, 2, 3, 1, 1, 2, 2, 3, 0]
    np.testing.assert_array_equal(read.labels.to_numpy()[:, 1:].argmax(axis=1), by_hand)
    assert (read.labels.to_numpy()[:, 1:].sum(axis=1) == 1).all()
    # a bin without images is no group, and two bins are one group
    assert len(told(SKIN, groups="age", bins={"age": [0, 18.5, 40, 65, 99]}).groups) == 4
    (age,) = told(SKIN, groups="age", bins={"age": ["40"]}).groups
    assert age == Binary("age", ("age 40 or more", "age below 40"), ("age 40 or more", "age below 40"))
    with pytest.raises(BiaslibError, match="'age' is 'age below 99' in every row"):
        told(SKIN, groups="age", bins={"age": [99]})


def test_intersections_are_all_combinations_that_are_new():
    read = told(SKIN, groups=["old", "skin"], intersections=True, train_labels=SKIN)
    names = [group.name for group in read.groups[5:]]
    assert names == [f"{old} x skin {skin}" for old in ("old", "not old") for skin in ("I", "II", "III", "IV")]
    assert read.groups[5].words == ("not (old x skin I)", "old x skin I")
    by_hand = (SKIN["old"] == "yes") & (SKIN["skin"] == "I")
    assert read.labels["old x skin I"].tolist() == by_hand.tolist()
    assert (read.labels[names].sum(axis=1) == 1).all()
    pd.testing.assert_frame_equal(read.train, read.labels)
    # nobody is old and not dark: who is old and dark is old, and who is not old and not dark is not dark
    dark = SKIN.assign(dark=["yes"] * 8 + ["no"] * 4)
    assert [group.name for group in told(dark, groups=["old", "dark"], intersections=True).groups] == [
        "old", "dark", "not old x dark"
    ]  # fmt: skip
    with pytest.raises(BiaslibError, match="'old x skin IV' has one value only in the training labels"):
        told(SKIN, groups=["old", "skin"], intersections=True, train_labels=SKIN.drop(index=3))
    wide = SKIN.assign(site=list("abcdefghijkl"))
    with pytest.raises(BiaslibError, match="There are 0 combinations"):  # each site is one image
        told(wide, groups=["old", "site"], intersections=True)


def test_of_many_combinations_those_of_few_images_are_listed_and_no_groups():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"file": range(900), "smile": rng.integers(0, 2, 900), "dark": rng.integers(0, 2, 900)})
    table["site"] = rng.choice(list("abcdefg"), 900, p=[0.3, 0.3, 0.2, 0.14, 0.02, 0.02, 0.02])
    read = told(table, groups=["dark", "site"], intersections=True)
    sizes = table.groupby(["dark", "site"]).size()
    assert len(sizes) == 14
    large = [f"{'dark' if dark else 'not dark'} x site {site}" for dark in (1, 0) for site in "abcd"]
    assert [group.name for group in read.groups[8:]] == large
    (note,) = read.notes
    assert note.startswith("Not tested, as they have fewer than 30 images: 6 of 14 combinations (dark x site e (")
    for dark, site in sizes[sizes < 30].index:
        assert f"{'dark' if dark else 'not dark'} x site {site} ({sizes[dark, site]})" in note
    words = pd.Series(read.combinations)
    assert words.value_counts().to_dict() == {
        f"{'dark' if dark else 'not dark'} x site {site}": n for (dark, site), n in sizes.items()
    }
    part = read.only(np.arange(900) < 10)
    assert part.combinations.tolist() == words[:10].tolist()
    assert told(table, groups=["dark", "site"]).combinations is None
    even = table.assign(site=[list("abcdefgh")[row % 8] for row in range(900)])
    with pytest.raises(BiaslibError, match="There are 16 combinations, not 1 to 12: leave --intersections out"):
        told(even, groups=["dark", "site"], intersections=True)


def test_rows_without_a_value_are_left_out_and_counted():
    table = SKIN.assign(old=SKIN["old"].where(SKIN.index != 4), smile=SKIN["smile"].where(SKIN.index > 1))
    read = told(table, predictions=SKIN[["file", "smile"]], drop_missing=True, train_labels=table)
    assert read.files == tuple(SKIN["file"][[2, 3, *range(5, 12)]])
    assert len(read.labels) == len(read.predicted) == len(read.train) == 9
    assert read.notes == (
        "Left out, as they have no value in 'smile' or 'old': 3 of 12 rows of the labels.",
        "Left out, as they have no value in 'smile' or 'old': 3 of 12 rows of the training labels.",
    )
    assert told(SKIN, drop_missing=True).notes == ()
    # a value that is missing elsewhere is missed by nobody
    assert len(told(SKIN.assign(skin=None)).files) == 12


def test_clusters_are_numbers_of_the_images():
    assert told(SKIN).clusters is None
    read = told(SKIN.assign(patient=SKIN["patient"].map("p{}".format)), cluster="patient")
    np.testing.assert_array_equal(read.clusters, [0, 0, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0])
    assert read.notes == ("Images of a patient may be alike: intervals and tests are by patient (3).",)
    gone = SKIN.assign(patient=SKIN["patient"].where(SKIN["patient"] > 1))
    with pytest.raises(BiaslibError, match="3 of 12 rows have no value in 'patient'"):
        told(gone, cluster="patient")
    assert len(told(gone, cluster="patient", drop_missing=True).clusters) == 9


@pytest.mark.parametrize(
    ("labels", "said"), [(["Yes", "No", "yes"], ["yes", "NO", "yes"]), (["TRUE", "FALSE", "true"], [1, 0, 1.0])]
)
def test_yes_and_no_are_the_same_in_any_spelling(labels, said):
    read = told(TABLE.assign(smile=labels, said=said), predictions="said")
    assert read.correct.all()
    assert read.labels["smile"].tolist() == [True, False, True]
    with pytest.raises(BiaslibError, match=r"'smile' is '(yes|1)' in every row"):
        told(TABLE.assign(smile=[labels[0], labels[2], labels[0]]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bins": "age"}, "Bins are a group and edges that grow"),
        ({"bins": "red=1,x"}, "Bins are a group and edges that grow, such as age=18,40,65, not red="),
        ({"cluster": "who"}, "no column 'who' in the table of labels"),
    ],
)
def test_the_command_refuses_what_it_cannot_compare(spots, refusal, given, said):
    assert said in refusal(spots, data=None, predictions="red", **given)
