"""Texts on their way into the file: what cannot be stored, and the automatic title."""

from __future__ import annotations

import logging
import re
import unicodedata

_log = logging.getLogger(__name__)

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_TITLE_CHARACTERS = 60
_TITLE_SOURCE_CHARACTERS = 1000
_ELLIPSIS = "…"
_JOINER = "\N{ZERO WIDTH JOINER}"

_THINKING = re.compile(r"<think>.*?(</think>|$)", re.DOTALL | re.IGNORECASE)
_FENCE_LINE = re.compile(r"^\s*(`{3,}|~{3,}).*$", re.MULTILINE)
_LINE_MARK = re.compile(r"^\s*(#{1,6}\s+|>\s?|[-*+]\s+(\[[ xX]\]\s+)?|\d{1,9}[.)]\s+|([-*_]\s*){3,}$)", re.MULTILINE)
_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)")
_EMPHASIS = re.compile(r"(\*{1,3}|(?<!\w)_{1,3}|~~|`+)(?=\S)([^\n]*?\S)\1(?!\w)")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069\ufeff]")


def storable(text: str) -> str:
    """`text` with each NUL and each lone surrogate as U+FFFD; the log says how many there were."""
    if "\0" not in text and _is_unicode(text):
        return text
    # Two surrogates that belong together are one character; only lone ones are lost.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", _REPLACEMENT)
    lost = whole.count(_REPLACEMENT) - text.count(_REPLACEMENT)
    if lost:
        _log.warning("%d characters that cannot be stored (NUL, half characters) were replaced by U+FFFD", lost)
    return whole


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def automatic_title(message: str) -> str:
    """A chat's title from its first message: one line without thinking and Markdown, cut at a word.

    Empty where nothing is left.
    """
    text = _THINKING.sub(" ", message)[:_TITLE_SOURCE_CHARACTERS]
    text = _LINE_MARK.sub("", _FENCE_LINE.sub("", text))
    text = _IMAGE_OR_LINK.sub(r"\1", text)
    for _ in range(3):  # emphasis within emphasis
        text = _EMPHASIS.sub(r"\2", text)
    text = " ".join(_UNSEEN.sub(" ", storable(text)).split())
    return _cut(text)


def _cut(text: str) -> str:
    if len(text) <= _TITLE_CHARACTERS:
        return text
    end = _TITLE_CHARACTERS - len(_ELLIPSIS)
    words = text[: end + 1].rpartition(" ")[0].rstrip(" ,;:.-–")
    if len(words) >= _TITLE_CHARACTERS // 3:
        return words + _ELLIPSIS
    # Scripts without spaces, and single words without end, are cut between any two whole characters.
    while end > 1 and (_continues(text[end]) or text[end - 1] == _JOINER):
        end -= 1
    return text[:end] + _ELLIPSIS


def _continues(character: str) -> bool:
    """Whether it belongs to the character before: accents, variation selectors, joiners, skin tones."""
    return unicodedata.category(character) in ("Mn", "Me", "Mc", "Sk") or character == _JOINER
