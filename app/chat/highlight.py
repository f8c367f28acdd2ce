"""Colours for code, one line at a time, with Pygments' lexer state carried from line to line."""

from __future__ import annotations

import time

from pygments.lexer import ExtendedRegexLexer, Lexer, LexerContext, RegexLexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound
from PySide6.QtCore import QTimer
from PySide6.QtGui import QColor, QSyntaxHighlighter, QTextBlock, QTextCharFormat, QTextDocument

from app.theme import Colors

_LONGEST_LINE = 2000
"""Lines beyond this are left plain: minified code would hold up the window."""
_ROOT = ("root",)
_SLICE_S = 0.006
"""Lines are coloured for this long at a time; the rest of a long code follows between other events."""


def lexer_for(language: str) -> Lexer | None:
    """The lexer of a fence's language; None for unknown ones."""
    try:
        return get_lexer_by_name(language, ensurenl=False, stripnl=False) if language else None
    except ClassNotFound:
        return None


def warm_up() -> None:
    """Import what the first code block would wait for."""
    lexer_for("python")


class CodeHighlighter(QSyntaxHighlighter):
    """Highlights the lines of a code document as they are appended or changed, many of them in slices of time."""

    def __init__(self, document: QTextDocument, lexer: Lexer, colors: Colors) -> None:
        super().__init__(document)
        self._lexer = lexer
        self._stacks: list[tuple[str, ...]] = [_ROOT]  # by block state
        self._states: dict[tuple[str, ...], int] = {_ROOT: 0}
        self._formats = _formats(colors)
        self._next_line: int | None = None  # the first one that waits for its colours
        self._slice_end_s = 0.0
        self._rest = QTimer(self)
        self._rest.setInterval(0)
        self._rest.timeout.connect(self._go_on)

    def set_colors(self, colors: Colors) -> None:
        """Colour everything anew."""
        self._formats = _formats(colors)
        self.begin_slice()
        self.rehighlight()

    def begin_slice(self) -> None:
        """What changes from here on may take one slice of time; what is left then waits."""
        self._slice_end_s = time.perf_counter() + _SLICE_S

    def highlightBlock(self, text: str) -> None:  # noqa: N802
        """Called by Qt for each line that changed, and for those after it whose state changed."""
        line = self.currentBlock().blockNumber()
        if self._next_line is not None and line >= self._next_line:
            return  # its turn comes
        if time.perf_counter() > self._slice_end_s:
            self._next_line = line
            self._rest.start()
            return
        stack = self._stacks[max(self.previousBlockState(), 0)]
        if len(text) <= _LONGEST_LINE:
            # With its line end, which closes a line comment; its format falls off the line's end.
            tokens, stack = lex_line(self._lexer, text + "\n", stack)
            for start, kind, value in tokens:
                form = self._format_of(kind)
                if form is not None:
                    # Qt counts UTF-16 units, Python characters.
                    self.setFormat(_units(text[:start]), _units(value), form)
        self.setCurrentBlockState(self._state_of(stack))

    def _go_on(self) -> None:
        self.begin_slice()
        block = self._waiting_block()
        while block.isValid() and time.perf_counter() <= self._slice_end_s:
            self._next_line = None if block.next() == self.document().end() else block.blockNumber() + 1
            self.rehighlightBlock(block)
            block = block.next()
        if self._next_line is None:
            self._rest.stop()

    def _waiting_block(self) -> QTextBlock:
        assert self._next_line is not None
        return self.document().findBlockByNumber(self._next_line)

    def _format_of(self, kind: _TokenType) -> QTextCharFormat | None:
        while kind is not None:
            if kind in self._formats:
                return self._formats[kind]
            kind = kind.parent  # type: ignore[assignment]  # None at the root
        return None

    def _state_of(self, stack: tuple[str, ...]) -> int:
        if stack not in self._states:
            self._states[stack] = len(self._stacks)
            self._stacks.append(stack)
        return self._states[stack]


def lex_line(
    lexer: Lexer, line: str, stack: tuple[str, ...]
) -> tuple[list[tuple[int, _TokenType, str]], tuple[str, ...]]:
    """The tokens of a line that begins in the lexer state `stack`, as (start, kind, text), and the state after it.

    Lexers that are no plain table of rules are asked for the line alone.
    """
    if isinstance(lexer, RegexLexer) and type(lexer).get_tokens_unprocessed is RegexLexer.get_tokens_unprocessed:
        context = LexerContext(line, 0, list(stack))
        try:
            # The extended loop runs any rule table, and unlike the simple one it leaves its stack to be read.
            tokens = list(ExtendedRegexLexer.get_tokens_unprocessed(lexer, context=context))  # type: ignore[arg-type]
            return tokens, tuple(context.stack or _ROOT)
        except TypeError:
            pass  # a rule of this lexer wants the simple call
    return list(lexer.get_tokens_unprocessed(line)), stack


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _formats(colors: Colors) -> dict[_TokenType, QTextCharFormat]:
    return {
        kind: _format(color)
        for kind, color in {
            Token.Keyword: colors.keyword,
            Token.Operator.Word: colors.keyword,
            Token.Name.Tag: colors.keyword,
            Token.Literal.String: colors.string,
            Token.Literal.Number: colors.number,
            Token.Comment: colors.comment,
            Token.Name.Function: colors.name,
            Token.Name.Class: colors.name,
            Token.Name.Decorator: colors.name,
            Token.Name.Builtin: colors.name,
        }.items()
    }


def _format(color: str) -> QTextCharFormat:
    result = QTextCharFormat()
    result.setForeground(QColor(color))
    return result
