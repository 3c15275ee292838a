"""What a page of the book gets when Sphinx makes it; `setup` is the extension.

A chapter gets its part and number above its title, its figures and tables numbers that the text can link to, the terms
of the glossary their definitions, and its head a description for those who find it elsewhere.
"""

import functools
import html
import re
from pathlib import Path
from typing import Any

import pybtex.plugin
import yaml
from docutils import nodes
from sphinx.util import logging

_LOG = logging.getLogger(__name__)
# in a docstring: code, then formulas; `$BIASLIB_DATA` is neither
_SPECIAL = re.compile(r"(``.+?``|`[^`]+`|\$\$.+?\$\$|\$(?!BIASLIB_)[^$]+\$)", re.DOTALL)
_UNNUMBERED = ("The course", "Making of")  # the parts after the chapters
_GLOSSARY = "glossary"
# pages that are read for their words, not looked up
_NO_TERMS = (_GLOSSARY, "api", "renamed", "bibliography", "datasheets", "status", "design")
# a figure or a table of ours begins, or says its caption
_PIECE = re.compile(r'<figure class="biaslib-figure(?P<attributes>[^>]*)>|<caption><span>|<figcaption id="[^"]*">')
_LINK = re.compile(r'<a class="biaslib-number" href="#([^"]+)"></a>')
_RUN = re.compile(r'<code class="[^"]*">(?:<span class="pre">)?biaslib(?:</span> <span class="pre">| )run\b.*?</code>')
# an exercise that the page asks and answers at once; an answer of a quiz, and in plain words why it is right or wrong
_ASKED = re.compile(
    r'(<div class="exercise (quiz|predict) admonition" id="([\w-]+)">\s*<p class="admonition-title">).*?</p>'
    r"(.*?</section>)",
    re.DOTALL,
)
_ANSWER = re.compile(
    r'<li class="task-list-item"><p><input class="task-list-item-checkbox"( checked)?[^>]*> '
    r"((?:(?!</li>).)+)\s<em>([^<]+)</em></p></li>",
    re.DOTALL,
)
_ASKS = {"quiz": "Check yourself", "predict": "Predict before you look"}
_DESCRIPTION = 200  # characters


def setup(app: Any) -> dict[str, bool]:
    """Tells Sphinx, which finds this function by its name, what to do with docstrings and pages."""
    app.add_role("figure", _figure_role)
    app.connect("autodoc-process-docstring", _process)
    app.connect("doctree-resolved", _define_terms)
    app.connect("html-page-context", _finish)
    # or all installed packages are looked through for every citation
    pybtex.plugin.find_plugin = functools.cache(pybtex.plugin.find_plugin)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


@functools.cache
def places(contents: Path) -> dict[str, tuple[int, str, int]]:
    """Part, its caption and the chapter's number of each document in a `_toc.yml`; later pages have none."""
    parts = yaml.safe_load(contents.read_text(encoding="utf-8")).get("parts", [])
    numbered = [
        (number, part["caption"], entry["file"])
        for number, part in enumerate(parts, start=1)
        for entry in part["chapters"]
        if part["caption"] not in _UNNUMBERED
    ]
    return {file: (part, caption, chapter) for chapter, (part, caption, file) in enumerate(numbered, start=1)}


def _finish(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """The body of a page with its numbers, and its description for search engines and cards."""
    if doctree is None or "body" not in context:
        return
    part, caption, chapter = places(Path(app.srcdir) / "_toc.yml").get(page, (0, "", None))
    body, unknown = numbered(asked(context["body"]), chapter=chapter)
    for name in unknown:
        _LOG.warning("%s: the text refers to figure %r, which the page does not have", page, name)
    if chapter:
        kicker = f"Part {part} · {html.escape(caption)} · Chapter {chapter}"
        body = body.replace("<h1>", f'<p class="book-kicker">{kicker}</p>\n<h1>', 1)
        body = _RUN.sub(lambda match: f'<span class="book-run">{match[0]}</span>', body, count=1)
    context["body"] = re.sub(r'<section id="(?:exercise|solution)-content">', "<section>", body)  # one a page at most
    card = (app.config.html_baseurl or "../" * page.count("/")) + "card.png"
    context["metatags"] = context.get("metatags", "") + _metatags(context.get("title", ""), body, card)


def numbered(body: str, *, chapter: int | None) -> tuple[str, list[str]]:
    """The HTML of a page whose figures and tables have numbers, also where the text refers to them; unknown names.

    Figures and tables are counted apart, from 1, behind the number of the chapter: "Figure 3.2".
    """
    counts, names = {"Figure": 0, "Table": 0}, {}
    kind, name = "Figure", ""

    def count(match: re.Match[str]) -> str:
        nonlocal kind, name
        if (attributes := match["attributes"]) is not None:
            kind = "Table" if "biaslib-table" in attributes else "Figure"
            name = (re.search(r' id="([^"]+)"', attributes) or ["", ""])[1]
            return match[0]
        counts[kind] += 1
        names[name] = f"{kind} {f'{chapter}.' if chapter else ''}{counts[kind]}"
        return f'{match[0]}<b class="biaslib-numbered">{names[name]}</b> '

    body = _PIECE.sub(count, body)
    unknown = [match[1] for match in _LINK.finditer(body) if match[1] not in names]
    link = r'<a class="reference internal" href="#{0}">{1}</a>'
    return _LINK.sub(lambda match: link.format(match[1], names.get(match[1], "Figure ?")), body), unknown


def asked(body: str) -> str:
    """The HTML of a page whose quizzes and predictions have titles of their own, and whose quizzes fold each reason.

    What is always seen of a fold is an answer; the reason why it is right or wrong is inside, and a reader without
    scripts opens it. `book/_static/course.js` makes a choice of these folds, and a guess of a prediction.
    """

    def folded(answer: re.Match[str], name: str) -> str:
        right, words, why = answer.groups()
        kind = "right" if right else "wrong"
        return f'<li class="{kind}"><details name="{name}"><summary>{words}</summary><p>{why}</p></details></li>'

    def box(match: re.Match[str]) -> str:
        head, kind, name, rest = match.groups()
        return f"{head}{_ASKS[kind]}</p>{_ANSWER.sub(lambda answer: folded(answer, name), rest)}"

    return _ASKED.sub(box, body)


def _figure_role(*arguments: Any, **options: Any) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """Its text is the name of a figure or table of the same page; `numbered` fills in the number."""
    link = f'<a class="biaslib-number" href="#{html.escape(arguments[2])}"></a>'
    return [nodes.raw("", link, format="html")], []


def _metatags(title: str, body: str, card: str) -> str:
    """The page's title, first paragraph of some length, and the book's card, as machines that show links read them."""
    without = re.sub(r'<span role="tooltip".*?</span>', "", body, flags=re.DOTALL)
    inner = re.findall(r"<p>(.*?)</p>", without, flags=re.DOTALL)
    paragraphs = (" ".join(html.unescape(re.sub(r"<[^>]+>", "", each)).split()) for each in inner)
    text = next((each for each in paragraphs if len(each) > 80), "")
    if len(text) > _DESCRIPTION:
        text = text[:_DESCRIPTION].rpartition(" ")[0] + " …"
    about = {"og:type": "article", "og:title": html.unescape(re.sub(r"<[^>]+>", "", title)), "og:description": text}
    about |= {"og:image": card}
    tags = "".join(f'<meta property="{name}" content="{html.escape(words)}" />\n' for name, words in about.items())
    return f'{tags}<meta name="description" content="{html.escape(text)}" />\n'


def _define_terms(app: Any, doctree: nodes.document, page: str) -> None:
    """Puts its definition on the first use of each term of the glossary in a page's paragraphs."""
    if page.startswith(_NO_TERMS) or _GLOSSARY not in app.env.all_docs:
        return
    definitions = _definitions(app.env)
    if not definitions:
        return
    up, longest_first = "../" * page.count("/"), sorted(definitions, key=len, reverse=True)
    pattern = re.compile(rf"\b((?:{'|'.join(map(re.escape, longest_first))})s?)\b", re.IGNORECASE)
    seen: set[str] = set()
    for link in list(doctree.findall(nodes.reference)):
        if f"{_GLOSSARY}.html#term-" in link.get("refuri", ""):
            link.parent.replace(link, nodes.Text(link.astext()))  # it says what it means where it stands
    for text in filter(_is_prose, list(doctree.findall(nodes.Text))):
        parts: list[nodes.Node] = []
        for at, word in enumerate(pattern.split(text.astext())):
            term = word.lower() if word.lower() in definitions else word.lower().removesuffix("s")
            first = at % 2 and term in definitions and term not in seen  # every other part is a term
            parts.append(_defined(word, *definitions[term], up) if first else nodes.Text(word))
            seen |= {term} if first else set()
        text.parent.replace(text, parts)


@functools.cache
def _definitions(environment: Any) -> dict[str, tuple[str, str]]:
    """Each term of the glossary in small letters, with its anchor and its definition."""
    items = environment.get_doctree(_GLOSSARY).findall(nodes.definition_list_item)
    return {
        term.astext().lower(): (term["ids"][0], next(iter(item.findall(nodes.paragraph))).astext())
        for item in items
        for term in item.findall(nodes.term)
    }


def _is_prose(text: nodes.Text) -> bool:
    """Whether a text stands in a paragraph outside tables, links, code, formulas, quizzes and predictions."""
    node, inside = text.parent, False
    while node is not None:
        if isinstance(node, nodes.reference | nodes.literal | nodes.math | nodes.title | nodes.table | nodes.raw):
            return False
        if {"cell", "quiz", "predict"}.intersection(node.get("classes", [])):
            return False
        inside |= isinstance(node, nodes.paragraph)
        node = node.parent
    return inside


def _defined(word: str, anchor: str, definition: str, up: str) -> nodes.raw:
    mark = f"define-{anchor}"
    more = f'<a href="{up}{_GLOSSARY}.html#{anchor}" tabindex="-1">Glossary</a>'
    tooltip = f'<span role="tooltip" class="book-definition" id="{mark}">{html.escape(definition)} {more}</span>'
    shown = f'<span class="book-term" tabindex="0" aria-describedby="{mark}">{html.escape(word)}</span>'
    return nodes.raw("", f'<span class="book-defined">{shown}{tooltip}</span>', format="html")


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = readable("\n".join(lines)).split("\n")


def readable(docstring: str) -> str:
    """The docstring in Sphinx's markup: `$...$` is a formula, a bar is a bar."""
    return "".join(map(_marked, _SPECIAL.split(docstring)))


def _marked(part: str) -> str:
    if part.startswith("`"):
        return part
    if _SPECIAL.fullmatch(part):
        return f":math:`{' '.join(part.strip('$').split())}`"
    return part.replace("|", r"\|")
