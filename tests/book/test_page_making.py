import re
from pathlib import Path

import pytest

from book import pages


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("the sum $\\sum_i a_i$ of all", "the sum :math:`\\sum_i a_i` of all"),
        ("the $AP_N$", "the :math:`AP_N`"),
        ("so $$a = b$$\n", "so :math:`a = b`\n"),
        ("over $a +\n    b$ lines", "over :math:`a + b` lines"),
        ("number of sets, |M|", "number of sets, \\|M\\|"),
        ("takes `int | None` or ``a | b``", "takes `int | None` or ``a | b``"),
        ("$BIASLIB_DATA, else $BIASLIB_STORE, and $x$", "$BIASLIB_DATA, else $BIASLIB_STORE, and :math:`x`"),
    ],
)
def test_formulas_and_bars_read_as_they_are_meant(written, read):
    assert pages.readable(written) == read


PIECES = """<p>See <a class="biaslib-number" href="#second"></a> and <a class="biaslib-number" href="#values"></a>.</p>
<figure class="biaslib-figure biaslib-drawing" id="first"><figcaption id="c1">One.</figcaption></figure>
<figure class="biaslib-figure biaslib-table" id="values"><table><caption><span>Values.</span></caption></table></figure>
<figure class="biaslib-figure biaslib-drawing" id="second"><figcaption id="c2">Two.</figcaption></figure>
"""


def test_figures_and_tables_are_counted_apart_and_links_say_their_numbers():
    body, unknown = pages.numbered(PIECES, chapter=3)
    assert unknown == []
    assert 'href="#second">Figure 3.2</a>' in body
    assert 'href="#values">Table 3.1</a>' in body
    assert '<figcaption id="c1"><b class="biaslib-numbered">Figure 3.1</b> One.' in body
    assert '<caption><span><b class="biaslib-numbered">Table 3.1</b> Values.' in body


def test_a_page_outside_the_chapters_counts_from_one():
    assert "Figure 2</b> Two." in pages.numbered(PIECES, chapter=None)[0]


def test_a_link_to_no_figure_is_found():
    assert pages.numbered('<a class="biaslib-number" href="#nowhere"></a>', chapter=1)[1] == ["nowhere"]


def test_chapters_are_counted_through_all_parts_but_the_course_and_the_making():
    places = pages.places(Path(__file__).parents[2] / "book" / "_toc.yml")
    assert places["_executed/what_is_bias"] == (1, "The idea", 1)
    numbers = [chapter for _, _, chapter in places.values()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert not {"glossary", "course", "deck"} & set(places)


QUIZ = """<div class="exercise quiz admonition" id="quiz-a">

<p class="admonition-title">Exercise</p>
<section id="exercise-content">
<p>Which?</p>
<ul class="contains-task-list simple">
<li class="task-list-item"><p><input class="task-list-item-checkbox" disabled="disabled" type="checkbox"> \
One, <em>or</em> none. <em>No.</em></p></li>
<li class="task-list-item"><p><input class="task-list-item-checkbox" checked="checked" disabled="disabled" \
type="checkbox"> Two. <em>Right.</em></p></li>
</ul>
</section>
</div>"""


def test_each_answer_of_a_quiz_folds_its_reason():
    page = pages.asked(QUIZ)
    assert '<p class="admonition-title">Check yourself</p>' in page
    assert "<summary>One, <em>or</em> none.</summary><p>No.</p>" in page
    assert '<details name="quiz-a"><summary>Two.</summary><p>Right.</p></details>' in page
    assert re.findall(r'<li class="(\w+)">', page) == ["wrong", "right"]
    assert "<input" not in page


def test_other_exercises_stay_as_they_are():
    plain = QUIZ.replace(" quiz admonition", " admonition")
    assert pages.asked(plain) == plain
    predicted = pages.asked(plain.replace(" admonition", " predict admonition", 1))
    assert predicted.count("Predict before you look") == 1
