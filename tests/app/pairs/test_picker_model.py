"""What the picker does, without widgets: a real hub client against a hub of the test's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.pairs.cards import Card, Filter
from app.pairs.custom_row import CustomPair
from app.pairs.picker_model import PickerModel
from app.pairs.sources import PairSources
from core.errors import Problem
from core.hub.progress import State
from core.pairs import Pair
from helpers.downloads import parts
from helpers.fake_hub import FakeHub, Fault, Repo, status
from helpers.tiny_pairs import DRAFT, SECOND, TARGET, draft_files, target_files, write_model
from helpers.window import WAIT_MS

FIRST = "tiny-4bit"
PADDING = 3_000_000


def shown(model: PickerModel) -> list[str]:
    return [card.row.id for card in model.shown()]


def until_step(model: PickerModel, qtbot: QtBot, step: str, pair: str = FIRST) -> Card:
    qtbot.waitUntil(lambda: model.card(pair).step == step, timeout=WAIT_MS)
    return model.card(pair)


def until_problem(model: PickerModel, qtbot: QtBot, pair: str = FIRST) -> Problem:
    qtbot.waitUntil(lambda: model.card(pair).problem is not None, timeout=WAIT_MS)
    problem = model.card(pair).problem
    assert problem is not None
    return problem


def until_state(model: PickerModel, qtbot: QtBot, state: State, pair: str = FIRST) -> None:
    def reached() -> bool:
        progress = model.card(pair).progress
        return progress is not None and progress.state == state

    qtbot.waitUntil(reached, timeout=WAIT_MS)


def begin(model: PickerModel, qtbot: QtBot, pair: str = FIRST) -> None:
    model.plan(pair)
    until_step(model, qtbot, "consent", pair)
    model.agree(pair)


def until_ready(model: PickerModel, qtbot: QtBot, pair: str = FIRST) -> None:
    qtbot.waitUntil(lambda: model.card(pair).row.state == "ready", timeout=WAIT_MS)


def slow(hub: FakeHub) -> None:
    hub.repos[TARGET] = Repo(target_files(PADDING))
    hub.bytes_per_s = 400_000


def test_the_recommended_pair_comes_first_and_those_that_cannot_run_say_why(model: PickerModel) -> None:
    assert shown(model) == [FIRST, "tiny-bf16", "huge-8bit", "wrong-4bit"]
    recommended = model.recommended()
    assert recommended is not None
    assert recommended.row.id == FIRST
    assert "301" in model.card("wrong-4bit").row.compatibility.reasons[0]
    memory = model.card("huge-8bit").memory
    assert memory is not None
    assert not memory.fits
    assert not model.card("huge-8bit").fits


def test_filters_and_search_leave_what_was_asked_for(model: PickerModel, qtbot: QtBot) -> None:
    model.set_filter(Filter(fitting=True))
    assert shown(model) == [FIRST, "tiny-bf16"]
    model.set_filter(Filter(downloaded=True))
    assert shown(model) == []
    model.set_filter(Filter(search="BF16 tiny"))
    assert shown(model) == ["tiny-bf16"]
    with qtbot.waitSignal(model.listed):
        model.set_filter(Filter(search="no such"))
    assert shown(model) == []


def test_models_of_other_programs_are_found_by_the_search(
    model: PickerModel, sources: PairSources, qtbot: QtBot
) -> None:
    assert sources.home is not None
    write_model(sources.home / ".lmstudio" / "models" / "other" / "llama-mine", target_files())
    with qtbot.waitSignal(model.listed, timeout=WAIT_MS):
        model.reload()
    assert [found.name for found in model.other_models()] == ["other/llama-mine"]
    model.set_filter(Filter(search="mine"))
    assert len(model.other_models()) == 1
    model.set_filter(Filter(search="tiny"))
    assert model.other_models() == ()


def test_a_plan_comes_before_a_byte_is_downloaded(model: PickerModel, hub: FakeHub, qtbot: QtBot) -> None:
    model.plan(FIRST)
    assert model.card(FIRST).step == "planning"
    card = until_step(model, qtbot, "consent")
    assert [plan.request.repo for plan in card.plans] == [TARGET, DRAFT]
    assert sum(plan.bytes_to_fetch for plan in card.plans) == sum(
        len(data) for files in (target_files(), draft_files()) for data in files.values()
    )
    assert not hub.sent
    model.dismiss(FIRST)
    assert model.card(FIRST).plans == ()


def test_a_plan_that_was_left_does_not_come_back(model: PickerModel, qtbot: QtBot) -> None:
    model.plan(FIRST)
    model.dismiss(FIRST)
    model.plan("tiny-bf16")
    until_step(model, qtbot, "consent", "tiny-bf16")
    assert model.card(FIRST).step == ""


def test_both_models_are_downloaded_and_the_pair_is_ready_to_load(model: PickerModel, qtbot: QtBot) -> None:
    begin(model, qtbot)
    assert len(model.under_way()) == 1
    until_ready(model, qtbot)
    assert model.under_way() == ()
    assert model.card(FIRST).progress is None
    with qtbot.assertNotEmitted(model.pair_chosen):
        model.choose(FIRST)  # its programs are to be prepared, which the user is asked about
    assert model.card(FIRST).step == "load"
    with qtbot.waitSignal(model.pair_chosen) as chosen:
        model.load(FIRST, check=True)
    assert model.card(FIRST).step == ""
    pair, check = chosen.args
    assert check
    assert (Path(pair.target) / "config.json").is_file()
    assert (Path(pair.draft) / "model.safetensors").is_file()
    assert model.card("tiny-bf16").row.state == "target missing"


def test_the_progress_counts_both_models_from_the_start(model: PickerModel, hub: FakeHub, qtbot: QtBot) -> None:
    slow(hub)
    begin(model, qtbot)
    total = sum(len(data) for files in (target_files(PADDING), draft_files()) for data in files.values())
    qtbot.waitUntil(lambda: model.under_way()[0].bytes_per_s is not None, timeout=WAIT_MS)
    progress = model.under_way()[0]
    assert progress.bytes_total == total
    assert 0 < progress.bytes_done < total
    assert progress.left_s is not None
    assert progress.left_s > 1
    assert 0 < progress.percent < 100
    model.cancel(FIRST, keep=False)
    qtbot.waitUntil(lambda: model.card(FIRST).progress is None, timeout=WAIT_MS)


def test_pause_keeps_what_arrived_and_resume_sends_only_the_rest(
    model: PickerModel, hub: FakeHub, sources: PairSources, qtbot: QtBot
) -> None:
    slow(hub)
    begin(model, qtbot)
    qtbot.waitUntil(lambda: hub.sent["model.safetensors"] > 500_000, timeout=WAIT_MS)
    model.pause(FIRST)
    until_state(model, qtbot, "paused")
    qtbot.waitUntil(lambda: sum(parts(sources.hub).values()) > 0, timeout=WAIT_MS)
    hub.bytes_per_s = 0
    model.resume(FIRST)
    until_ready(model, qtbot)
    whole = sum(len(files["model.safetensors"]) for files in (target_files(PADDING), draft_files()))
    assert hub.sent["model.safetensors"] <= whole + (1 << 20)


@pytest.mark.parametrize("keep", [True, False])
def test_cancel_keeps_or_deletes_what_arrived(
    model: PickerModel, hub: FakeHub, sources: PairSources, qtbot: QtBot, keep: bool
) -> None:
    slow(hub)
    begin(model, qtbot)
    qtbot.waitUntil(lambda: hub.sent["model.safetensors"] > 500_000, timeout=WAIT_MS)
    model.cancel(FIRST, keep=keep)
    qtbot.waitUntil(lambda: model.card(FIRST).progress is None, timeout=WAIT_MS)
    assert bool(parts(sources.hub)) is keep
    model.plan(FIRST)
    card = until_step(model, qtbot, "consent")
    here = sum(plan.bytes_total - plan.bytes_to_fetch for plan in card.plans)
    assert (here > 400_000) is keep


def test_a_draft_that_two_pairs_share_is_not_cancelled_under_the_other(
    model: PickerModel, hub: FakeHub, qtbot: QtBot
) -> None:
    slow(hub)
    begin(model, qtbot)
    begin(model, qtbot, "tiny-bf16")
    model.cancel(FIRST, keep=True)
    hub.bytes_per_s = 0
    until_ready(model, qtbot, "tiny-bf16")
    assert model.card(FIRST).row.state == "target missing"
    assert model.card(FIRST).progress is None


def test_two_paused_pairs_leave_nothing_running(model: PickerModel, hub: FakeHub, qtbot: QtBot) -> None:
    slow(hub)
    begin(model, qtbot)
    begin(model, qtbot, "tiny-bf16")
    model.pause("tiny-bf16")
    model.pause(FIRST)

    assert [each.state for each in model.under_way()] == ["paused", "paused"]
    downloads = [each for entry in model._downloads._entries.values() for each in entry.downloads]
    assert {each.progress.state for each in downloads} == {"paused"}
    model.resume(FIRST)
    hub.bytes_per_s = 0
    until_ready(model, qtbot)


def test_a_download_that_fails_says_why_and_can_be_tried_again(model: PickerModel, hub: FakeHub, qtbot: QtBot) -> None:
    hub.on_content["model.safetensors"].extend([Fault(wrong_byte=900)])
    begin(model, qtbot)
    until_state(model, qtbot, "failed")
    progress = model.card(FIRST).progress
    assert progress is not None
    assert progress.problem is not None
    assert progress.problem.kind == "ChecksumFailed"
    model.resume(FIRST)
    until_ready(model, qtbot)


def test_a_failed_download_can_be_left(model: PickerModel, hub: FakeHub, qtbot: QtBot) -> None:
    hub.on_content["model.safetensors"].extend([Fault(wrong_byte=900)] * 2)
    begin(model, qtbot)
    until_state(model, qtbot, "failed")
    model.dismiss(FIRST)
    assert model.card(FIRST).progress is None


def test_a_stall_is_told_with_its_tries(model: PickerModel, hub: FakeHub, qtbot: QtBot) -> None:
    hub.on_content["model.safetensors"].extend([status(503, Retry_After="1")] * 2)
    begin(model, qtbot)
    until_state(model, qtbot, "stalled")
    progress = model.card(FIRST).progress
    assert progress is not None
    assert progress.attempts == 4
    assert progress.problem is not None
    until_ready(model, qtbot)


@pytest.mark.parametrize(
    ("repo", "kind"),
    [(None, "ModelNotFound"), (Repo(target_files(), gated=True), "GatedModel")],
)
def test_what_the_hub_refuses_is_told_on_the_card(
    model: PickerModel, hub: FakeHub, qtbot: QtBot, repo: Repo | None, kind: str
) -> None:
    if repo is None:
        del hub.repos[TARGET]
        model.plan(FIRST)
        assert until_problem(model, qtbot).kind in (kind, "TokenRefused")
    else:
        hub.repos[TARGET] = repo
        begin(model, qtbot)
        until_state(model, qtbot, "failed")
        progress = model.card(FIRST).progress
        assert progress is not None
        assert progress.problem is not None
        assert progress.problem.kind == kind


def test_deleting_tells_the_bytes_first_and_leaves_what_another_pair_needs(
    model: PickerModel, sources: PairSources, qtbot: QtBot
) -> None:
    begin(model, qtbot)
    until_ready(model, qtbot)
    begin(model, qtbot, "tiny-bf16")
    until_ready(model, qtbot, "tiny-bf16")
    model.measure_removal(FIRST)
    card = until_step(model, qtbot, "removal")
    assert [removal.repo for removal in card.removals] == [TARGET]  # the draft is the other pair's too
    assert card.removals[0].bytes_freed >= len(target_files()["model.safetensors"])
    model.remove(FIRST)
    qtbot.waitUntil(lambda: model.card(FIRST).row.state == "target missing", timeout=WAIT_MS)
    assert model.card("tiny-bf16").row.state == "ready"
    model.measure_removal("tiny-bf16")
    assert {removal.repo for removal in until_step(model, qtbot, "removal", "tiny-bf16").removals} == {SECOND, DRAFT}
    model.remove("tiny-bf16")
    qtbot.waitUntil(lambda: model.card(FIRST).row.state == "not downloaded", timeout=WAIT_MS)
    assert list(sources.hub.cache_dir.glob("models--*")) == []


def test_the_loaded_pair_is_marked_and_not_deleted(model: PickerModel, qtbot: QtBot) -> None:
    begin(model, qtbot)
    until_ready(model, qtbot)
    model.set_loaded(model.card(FIRST).row.pair)
    assert model.card(FIRST).loaded
    model.measure_removal(FIRST)
    assert "is loaded" in until_problem(model, qtbot).sentence
    model.set_loaded(None)
    assert not model.card(FIRST).loaded


def test_what_another_program_keeps_is_not_deleted(model: PickerModel, sources: PairSources, qtbot: QtBot) -> None:
    assert sources.home is not None
    write_model(sources.home / ".lmstudio" / "models" / TARGET, target_files())
    write_model(sources.home / ".lmstudio" / "models" / DRAFT, draft_files())
    model.reload()
    until_ready(model, qtbot)
    model.measure_removal(FIRST)
    assert "another program" in until_problem(model, qtbot).sentence


def test_a_pair_that_cannot_run_is_not_chosen(model: PickerModel, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(model.pair_chosen):
        model.choose("wrong-4bit")
        model.choose(FIRST)  # nothing of it is on the disk


def inspected(model: PickerModel, qtbot: QtBot, target: str, draft: str) -> CustomPair | Problem:
    with qtbot.waitSignal(model.inspected, timeout=WAIT_MS) as told:
        model.inspect(target, draft)
    outcome = told.args[0]
    assert isinstance(outcome, CustomPair | Problem)
    return outcome


def test_a_custom_pair_in_folders_can_be_loaded(model: PickerModel, tmp_path: Path, qtbot: QtBot) -> None:
    target, draft = write_model(tmp_path / "t", target_files()), write_model(tmp_path / "d", draft_files())
    custom = inspected(model, qtbot, str(target), str(draft))
    assert isinstance(custom, CustomPair)
    assert custom.inspection.compatibility.runs
    model.add_custom(custom)
    assert shown(model)[0] == custom.id
    with qtbot.waitSignal(model.pair_chosen) as chosen:
        model.choose(custom.id)
        model.load(custom.id, check=False)
    assert chosen.args == [Pair(f"t + d {model.card(custom.id).row.precision}", str(target), str(draft)), False]


def test_a_custom_pair_at_the_hub_is_judged_without_a_download_and_then_downloaded(
    model: PickerModel, hub: FakeHub, sources: PairSources, qtbot: QtBot
) -> None:
    hub.repos["bob/other"] = Repo(target_files(4))
    custom = inspected(model, qtbot, "bob/other", DRAFT)
    assert isinstance(custom, CustomPair)
    assert custom.inspection.compatibility.runs
    assert not sources.hub.cache_dir.exists()
    model.add_custom(custom)
    begin(model, qtbot, custom.id)
    until_ready(model, qtbot, custom.id)


def test_a_target_of_the_users_own_needs_no_draft(model: PickerModel, tmp_path: Path, qtbot: QtBot) -> None:
    target = write_model(tmp_path / "t", target_files())
    custom = inspected(model, qtbot, str(target), "")
    assert isinstance(custom, CustomPair)
    model.add_custom(custom)
    with qtbot.waitSignal(model.pair_chosen) as chosen:
        model.choose(custom.id)
    assert chosen.args == [Pair(f"t + no draft {model.card(custom.id).row.precision}", str(target), None), False]


def test_of_a_target_without_a_draft_nothing_else_is_downloaded(model: PickerModel, hub: FakeHub, qtbot: QtBot) -> None:
    hub.repos["bob/other"] = Repo(target_files(4))
    first_try = model.first_try()
    custom = inspected(model, qtbot, "bob/other", "")
    assert isinstance(custom, CustomPair)
    model.add_custom(custom)
    assert model.first_try() == first_try
    begin(model, qtbot, custom.id)
    until_ready(model, qtbot, custom.id)
    pair = model.card(custom.id).row.pair
    assert pair is not None
    assert pair.draft is None


def test_a_wrong_custom_pair_gives_its_reason(model: PickerModel, hub: FakeHub, qtbot: QtBot) -> None:
    config = target_files()["config.json"].replace(b'"hidden_size": 64', b'"hidden_size": 32')
    hub.repos["bob/narrow"] = Repo({**target_files(), "config.json": config})
    custom = inspected(model, qtbot, "bob/narrow", DRAFT)
    assert isinstance(custom, CustomPair)
    assert any("32" in reason and "64" in reason for reason in custom.inspection.compatibility.reasons)


@pytest.mark.parametrize(
    ("target", "draft"), [("", DRAFT), ("/nowhere/at/all", DRAFT), ("bob/missing", DRAFT), ("\0", DRAFT), (TARGET, "x")]
)
def test_a_custom_pair_that_is_not_there_is_a_problem(
    model: PickerModel, qtbot: QtBot, target: str, draft: str
) -> None:
    assert isinstance(inspected(model, qtbot, target, draft), Problem)


def test_closing_pauses_and_the_next_start_goes_on(
    qtbot: QtBot, loop: asyncio.AbstractEventLoop, sources: PairSources, hub: FakeHub
) -> None:
    slow(hub)
    first = PickerModel(lambda: sources)
    with qtbot.waitSignal(first.listed, timeout=WAIT_MS):
        first.reload()
    begin(first, qtbot)
    qtbot.waitUntil(lambda: hub.sent["model.safetensors"] > 500_000, timeout=WAIT_MS)
    task = loop.create_task(first.close())
    qtbot.waitUntil(task.done, timeout=WAIT_MS)
    task.result()
    assert sum(parts(sources.hub).values()) > 400_000
    hub.bytes_per_s = 0
    second = PickerModel(lambda: sources)
    with qtbot.waitSignal(second.listed, timeout=WAIT_MS):
        second.reload()
    begin(second, qtbot)
    until_ready(second, qtbot)
    task = loop.create_task(second.close())
    qtbot.waitUntil(task.done, timeout=WAIT_MS)


def test_a_broken_catalog_of_the_user_is_told_once(
    qtbot: QtBot, loop: asyncio.AbstractEventLoop, sources: PairSources
) -> None:
    assert sources.catalog_folder is not None
    (sources.catalog_folder / "pairs.toml").write_text("nonsense")
    model = PickerModel(lambda: sources)
    with qtbot.waitSignal(model.problem_met, timeout=WAIT_MS) as told:
        model.reload()
    assert told.args[0].kind == "BadCatalog"
    assert "qwen3-4b-4bit" in shown(model)  # the built-in catalog
    task = loop.create_task(model.close())
    qtbot.waitUntil(task.done, timeout=WAIT_MS)
