"""The Markdown that answers are read as: CommonMark with tables, strikethrough, footnotes and formulas. No Qt.

Blocks are parsed one by one while an answer streams in, so a footnote mark and its text stand for themselves.
"""

from __future__ import annotations

import re
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

FORMULAS = {"math_inline": False, "math_inline_double": True, "math_block": True}
"""The token types of formulas, and whether each is set apart on lines of its own."""
FOOTNOTE_MARK, FOOTNOTE = "footnote_mark", "footnote_label"
"""A mark in the text, and the label before the text of a footnote; their content is the label."""
_MOST_BRACKETS = 100
"""A block with more opening brackets has no links: looking for them takes time that grows with the square."""
_OPENABLE = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_MARK = re.compile(r"\[\^([^\]\s]{1,40})\]")
_LABEL = re.compile(r"\[\^([^\]\s]{1,40})\]:[ \t]*")
_DOLLARS = re.compile(
    r"""\$\$(?P<double>(?:[^$\\]|\\.)+)\$\$
    |\$(?P<single>(?![\s$])(?:[^$\\]|\\.)*?(?<!\s))\$(?!\d)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSING = {"\\(": "\\)", "\\[": "\\]"}


def parse(source: str) -> list[Token]:
    """The tokens of one or more blocks."""
    parser = _parser if source.count("[") <= _MOST_BRACKETS else _linkless_parser
    return parser.parse(source)


def is_openable(href: str) -> bool:
    """Whether a link names an address of the web or of mail: nothing else may be opened from a message."""
    return bool(_OPENABLE.match(href))


def _footnote_mark(state: StateInline, silent: bool) -> bool:
    match = _MARK.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        state.push(FOOTNOTE_MARK, "", 0).content = match.group(1)
    state.pos = match.end()
    return True


def _footnote(state: StateBlock, line: int, end_line: int, silent: bool) -> bool:
    """A paragraph that begins with `[^label]:`; CommonMark would take it for a link's definition and hide it."""
    start = state.bMarks[line] + state.tShift[line]
    match = _LABEL.match(state.src, start, state.eMarks[line])
    if match is None:
        return False
    if silent:
        return True
    last = line + 1
    while last < end_line and not state.isEmpty(last):
        next_start = state.bMarks[last] + state.tShift[last]
        if _LABEL.match(state.src, next_start, state.eMarks[last]):
            break
        last += 1
    text = state.getLines(line, last, state.blkIndent, False).lstrip()
    state.line = last
    state.push("paragraph_open", "p", 1).meta = {FOOTNOTE: match.group(1)}
    inline = state.push("inline", "", 0)
    inline.content = _LABEL.sub("", text, count=1).strip()
    inline.children = []
    state.push("paragraph_close", "p", -1)
    return True


def _dollar_formula(state: StateInline, silent: bool) -> bool:
    """`$...$` and `$$...$$` within a paragraph; `$5 and $10` are prices.

    The plugin's own rule looks behind the first character, at the last one.
    """
    match = _DOLLARS.match(state.src, state.pos)
    if match is None or (state.pos > 0 and state.src[state.pos - 1].isdigit()):
        return False
    if not silent:
        token = state.push("math_inline_double" if match["double"] else "math_inline", "", 0)
        token.content = match["double"] or match["single"]
        token.markup = "$$" if match["double"] else "$"
    state.pos = match.end()
    return True


def _bracket_formula(state: StateInline, silent: bool) -> bool:
    r"""`\(...\)` and `\[...\]` within a paragraph."""
    opening = state.src[state.pos : state.pos + 2]
    if opening not in _CLOSING:
        return False
    end = state.src.find(_CLOSING[opening], state.pos + 2)
    if end < 0 or not state.src[state.pos + 2 : end].strip():
        return False
    if not silent:
        token = state.push("math_inline_double" if opening == "\\[" else "math_inline", "", 0)
        token.content = state.src[state.pos + 2 : end]
        token.markup = opening
    state.pos = end + 2
    return True


def _bracket_block(state: StateBlock, line: int, end_line: int, silent: bool) -> bool:
    r"""Lines from one that begins with `\[` to one that ends with `\]`: nothing between is Markdown."""
    start = state.bMarks[line] + state.tShift[line]
    if not state.src.startswith("\\[", start):
        return False
    for last in range(line, end_line):
        if last > line and state.isEmpty(last):
            return False
        text = state.src[state.bMarks[last] : state.eMarks[last]].rstrip()
        if text.endswith("\\]") and (last > line or len(text) >= start - state.bMarks[line] + 4):
            break
    else:
        return False
    if not silent:
        token = state.push("math_block", "", 0)
        token.block = True
        token.markup = "\\["
        token.content = state.getLines(line, last + 1, state.blkIndent, False).strip()[2:-2]
        state.line = last + 1
    return True


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    dollarmath_plugin(
        parser,
        allow_labels=False,
        allow_blank_lines=False,
    )
    parser.disable("math_inline")
    # The open block is read with each frame, and what makes an address safe is slow.
    parser.normalizeLink = lru_cache(1000)(parser.normalizeLink)  # type: ignore[method-assign]
    parser.inline.ruler.before("escape", "dollar_formula", _dollar_formula)
    parser.inline.ruler.before("escape", "bracket_formula", _bracket_formula)
    parser.inline.ruler.before("link", "footnote_mark", _footnote_mark)
    interrupts = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("fence", "bracket_block", _bracket_block, interrupts)  # type: ignore[arg-type]
    parser.block.ruler.before("reference", "footnote", _footnote, {"alt": ["paragraph", "reference"]})
    return parser


_parser = _make_parser()
_linkless_parser = _make_parser().disable(["link", "image"])
