import pytest

from biaslib.datasets import captions, coco_imsitu
from biaslib.errors import BiaslibError


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A man riding a horse.", 0),
        ("two GIRLS and a dog", 1),
        ("a man and a woman", captions.UNNAMED),
        ("a person feeding a giraffe.", captions.UNNAMED),
        ("a snowman beside a human", captions.UNNAMED),
        ("", captions.UNNAMED),
    ],
)
def test_gender_is_named_by_whole_words(text, said):
    assert captions.gender([text]).tolist() == [said]


def mentioned(text, names):
    row = captions.objects([text], names).iloc[0]
    return {name for name in names if row[name]}


def test_objects_are_named_by_name_plural_or_another_word():
    names = ["bicycle", "knife", "bus", "tv", "wine_glass", "sheep", "couch"]
    assert mentioned("Bikes near two buses", names) == {"bicycle", "bus"}
    assert mentioned("knives and wine glasses", names) == {"knife", "wine_glass"}
    assert mentioned("sheep watching television on sofas", names) == {"sheep", "tv", "couch"}
    assert mentioned("a busy penknife in couches", names) == {"couch"}


def test_longer_terms_are_read_first_and_words_are_not_used_twice():
    names = ["dog", "hot_dog", "bear", "teddy_bear", "cat"]
    assert mentioned("a hot dog", names) == {"hot_dog"}
    assert mentioned("a teddy bear beside a dog", names) == {"teddy_bear", "dog"}
    assert mentioned("a bear and a teddy bear", names) == {"bear", "teddy_bear"}


def test_columns_follow_the_names_and_rows_the_captions():
    table = captions.objects(["a dog", "a cat", "nothing"], ["cat", "dog"])
    assert list(table.columns) == ["cat", "dog"]
    assert table.to_numpy().tolist() == [[False, True], [True, False], [False, False]]


def test_no_word_means_two_of_the_papers_objects():
    terms = [term for name in coco_imsitu.PAPER_OBJECTS for term in captions._terms(name)]
    assert len(terms) == len(set(terms))


def test_no_objects_is_an_error():
    with pytest.raises(BiaslibError, match="no object to look for"):
        captions.objects(["a dog"], [])
