"""What prompt lookup gains is told by kind of task, with whether the texts are the same."""

from __future__ import annotations

import pytest

from core.bench import local_models
from core.bench.local_models import gemma_file
from core.bench.lookup import MODES, lookup_rows, prompt_of
from core.bench.lookup_tasks import TASKS
from core.engine.loader import load_pair_now
from core.errors import MissingFile
from core.pairs import Pair


@pytest.fixture(scope="module")
def alone(tiny_pair):
    return load_pair_now(Pair("alone", tiny_pair.target, None))


def test_every_mode_is_measured_on_both_kinds_and_gives_the_same_texts(alone):
    said = []
    rows = {each.name: each for each in lookup_rows(alone, 2, 16, said.append)}
    assert len(rows) == 2 * (1 + 3 * (len(MODES) - 1))
    for kind in ("summary", "edit"):
        for mode in ("lookup", "auto"):
            assert rows[f"{kind}, {mode}: same text as plain"].value == 3
            assert rows[f"{kind}, {mode}: speed"].ratio_to == "plain"
            assert rows[f"{kind}, {mode}: tokens per step"].value >= 1
    assert said == ["summary, run 1 of 2", "summary, run 2 of 2", "edit, run 1 of 2", "edit, run 2 of 2"]


def test_a_model_without_a_chat_template_goes_on_with_a_text(alone, monkeypatch):
    chat = prompt_of(alone, TASKS[0])
    monkeypatch.setattr(type(alone.tokenizer), "chat_template", None)
    beginning = prompt_of(alone, TASKS[0])
    assert chat != beginning
    assert alone.tokenizer.decode(beginning).endswith(TASKS[0].opening)


def test_a_model_that_is_not_installed_is_told_with_the_way_to_it(monkeypatch):
    monkeypatch.setattr(local_models, "_GEMMA", "no_such_package_of_models")
    with pytest.raises(MissingFile) as caught:
        gemma_file()
    assert "--group gemma" in caught.value.problem.hint
