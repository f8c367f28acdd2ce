"""Values of foreign files in sentences."""

from __future__ import annotations

from core.formats.values import shown

NESTED: list = []
for _ in range(5000):
    NESTED = [NESTED]


def test_any_value_is_shown_short():
    assert shown(None) == "nothing"
    assert shown("x") == "'x'"
    assert shown([1, 2]) == "[1, 2]"
    assert shown(NESTED) == "a huge list"
    assert shown(10**5000) == "a huge int"
    assert len(shown("x" * 1000)) == 60
