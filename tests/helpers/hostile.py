"""Messages that no model should write and one will, to be shown without harm."""

from __future__ import annotations

import random
from pathlib import Path

MEGABYTE = 1_000_000
_ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
_BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
_PIECES = (
    "<script>", "<b>", "</div>", "```", "~~~", "$", "$$", "\\(", "\\[", "\\]", "**", "_", "`", "[", "](", "![", ")",
    "|", "|---|", "\n", "\n\n", "> ", "- ", "1. ", "# ", "\t", "\u202e", "\u200b", "\ud800", "\udfff", "\x00",
    "\x1b[31m",
    "\u2028", "\ufffc", "e\u0301" * 30, "𝔘", "👩‍👩‍👧‍👦", "مرحبا", "&#0;", "&lt;", "\\frac{", "javascript:", "word ",
)  # fmt: skip


def hostile_messages(url: str, file: Path) -> list[str]:
    """Two hundred of them; `url` is an address and `file` a picture that must not be read."""
    messages = [*_addresses(url, file), *_huge(), *_letters(), *_formulas(), *_nested(), *_unclosed()]
    choice = random.Random(0)
    while len(messages) < 200:
        messages.append("".join(choice.choices(_PIECES, k=choice.randint(5, 400))))
    return messages


def _addresses(url: str, file: Path) -> list[str]:
    html = [
        f'<img src="{url}/a.png">',
        f'<img src="{file.as_uri()}">',
        f'<link rel="stylesheet" href="{url}/a.css">',
        f'<iframe src="{url}"></iframe>',
        f"<style>@import url({url}/b.css); body {{ background: url({url}/c.png) }}</style>",
        f'<object data="{file.as_uri()}"></object>',
        "<script>alert(1)</script>",
        '<a href="javascript:alert(1)">x</a>',
        '<svg onload="alert(1)"><image href="file:///etc/passwd"/></svg>',
        f'<body background="{url}/d.png"><table background="{file.as_uri()}"><tr><td>x</td></tr></table>',
    ]
    markdown = [
        f"![p]({url}/e.png)",
        f"![p]({file.as_uri()})",
        f"![p]({file})",
        f"![p][ref]\n\n[ref]: {url}/f.png",
        "![p](data:image/png;base64,iVBORw0KGgo=)",
        "![p](qrc:/qt-project.org/styles/commonstyle/images/standardbutton-open-16.png)",
        "[x](javascript:alert(1)) [y](JaVaScRiPt:alert(1)) [z](java&#10;script:alert(1))",
        "[x](file:///etc/passwd) [y](vbscript:x) [z](data:text/html,<script>alert(1)</script>)",
        "<javascript:alert(1)> <file:///etc/passwd> <smb://host/share>",
        f"[![p]({url}/g.png)](https://example.org)",
        "![formula](formula:0123) ![x](:/images/x.png)",
    ]
    return [*html, *("Text " + tag + " more" for tag in html), *markdown, "\n".join(html + markdown)]


def _huge() -> list[str]:
    return [
        "x" * MEGABYTE,
        "word " * (MEGABYTE // 5),
        "[" * 20_000,
        "```\n" + "y" * MEGABYTE,
        "```python\n" + "def f(x): return x + 1\n" * (MEGABYTE // 23),
        "line\n" * 4_000,
        "- item\n" * 3_000,
        "> quote\n" * 3_000,
        "| a | b | c |\n|---|---|---|\n" + "| 1 | 2 | 3 |\n" * 1_000,
        "|" + "a|" * 1_000 + "\n|" + "-|" * 1_000 + "\n|" + "b|" * 1_000,
        "# " + "heading " * 4_000,
        "$x$ " * 1_000,
        "**bold** `code` [l](https://e.org) " * 500,
    ]


def _letters() -> list[str]:
    return [
        _ZERO_WIDTH * 500,
        "a" + _ZERO_WIDTH.join("hidden"),
        _BIDI * 300,
        "\u202e txt.exe",
        "\ud800", "\udc00 low", "high \ud83d end", "\ud83d\ude00 pair", "```python\nx = '\ud800'\n```", "$\ud800$",
        "\x00\x01\x02\x7f\x85", "Z" + "\u0300\u0301\u0302" * 2_000, "\u2028\u2029\x0b\x0c\r\r\n",
        "\ufffe\uffff\U0010ffff",
        "שלום [קישור](https://example.org) עם `code` ו $x^2$", "日本語" * 3_000, "مرحبا " * 2_000, "👩‍👩‍👧‍👦" * 500,
    ]  # fmt: skip


def _formulas() -> list[str]:
    return [
        "$" + "\\sqrt{" * 50 + "x" + "}" * 50 + "$",
        "$" + "x^{" * 40 + "y" + "}" * 40 + "$",
        "$$" + "\\frac{1}{" * 30 + "x" + "}" * 30 + "$$",
        "$" + "{" * 3_000 + "}" * 3_000 + "$",
        "$\\def\\a{\\a\\a}\\a$", "$\\newcommand{\\x}{\\x\\x}\\x$", "$\\let\\a\\b\\a$",
        "$\\rule{100000pt}{100000pt}$", "$\\hspace{1000000em}x$", "$\\input{/etc/passwd}$",
        "$\\includegraphics{/etc/passwd}$", "$\\href{javascript:alert(1)}{x}$",
        "$\\text{<image href='file:///etc/passwd'/>}$",
        "$" + "x+" * 2_000 + "$", "$\\frac$", "$\\left($", "$\\begin{matrix}$", "$&$", "$%$", "$\\unknown{x}$",
        "$$$$", "$ $",
        "\\(\\)", "\\[\\]", "\\[" + "\\left(" * 20 + "x" + "\\right)" * 20 + "\\]", "$" + "\\begin{matrix}" * 20 + "$",
    ]  # fmt: skip


def _nested() -> list[str]:
    return [
        ">" * 5_000 + " deep",
        "> " * 500 + "deep",
        "\n".join(">" * depth + " q" for depth in range(1, 200)),
        "\n".join("  " * depth + "- item" for depth in range(200)),
        "- " * 500 + "x",
        "1. " * 300 + "x",
        "*" * 2_000 + "x" + "*" * 2_000,
        "**a " * 1_000,
        "[a](" * 500,
        "![" * 600,
        "(" * 3_000,
        "`" * 3_000,
        "~" * 3_000,
        "> - > - " * 100 + "x",
        "[^1]" * 500,
        "[^" * 500,
        "- [ ] " * 200,
    ]


def _unclosed() -> list[str]:
    return [
        "```",
        "```python",
        "~~~~",
        "````\n```\n",
        "```" + "`" * 500,
        "$$\nx",
        "\\[\nx",
        "| a |\n|---",
        "**a",
        "[a](",
        "`",
        "<!--",
    ]
