"""The figures worked out from the engine's events."""

from __future__ import annotations

import pytest

from app.pairs.mode_selector import Devices
from app.stats import words
from app.stats.figures import MOST_CHANGES, Figures, FiguresModel, dial_top, verdict
from app.stats.totals import compare_with_plain
from core.chats import Figures as SavedFigures
from core.modes import MissingMode
from core.protocol import Done, Heartbeat, Loaded, Mode, ModeChanged, Step
from helpers.steps import step
from helpers.window import PAIR

LOADED = Loaded(PAIR, ("plain", "gpu", "auto"), (), 16, 2048, 1.5, 20.0)


def done(
    mode: Mode = "gpu", tokens: int = 101, decode_s: float = 2.0, plain_ms: float = 50.0, **changes: object
) -> Done:
    values: dict[str, object] = {
        "text": "x", "thinking": "", "token_ids": (), "tokens": tokens, "steps": 30, "accepted_per_step": 3.3,
        "proposed": 210, "accepted": 70, "tokens_per_second": (tokens - 1) / decode_s if tokens > 1 else 0.0,
        "time_to_first_token_s": 0.21, "prompt_tokens": 40, "reused_tokens": 0, "decode_s": decode_s,
        "plain_ms_per_token": plain_ms, "mode": mode, "finish_reason": "stop",
    }  # fmt: skip
    return Done(**(values | changes))  # type: ignore[arg-type]


def model_after(*steps: Step) -> FiguresModel:
    model = FiguresModel()
    model.loaded(LOADED, now_s=0.0)
    model.begin(now_s=10.0)
    for each in steps:
        model.step(each, now_s=10.25 + each.elapsed_s)
    return model


def test_the_share_of_every_mode_is_known_and_why_it_changed() -> None:
    model = model_after(*(step(0.1 * n, n + 1, 1, "plain" if n < 3 else "gpu") for n in range(9)))
    model.mode_changed(ModeChanged("gpu", "Expected here: more.", "choice"))
    figures = model.figures()
    assert figures.modes == (("gpu", 0.75), ("plain", 0.25))
    assert figures.mode_reason == "Expected here: more."
    assert words.decoded_by(figures.modes, Devices()) == ["GPU draft 75 %", "Plain decoding 25 %"]
    assert words.decoded_by((("plain", 1.0),), Devices()) == ["Plain decoding"]
    model.begin(now_s=20.0)
    assert (model.figures().modes, model.figures().mode_reason) == ((), "")


def test_nothing_is_shown_before_it_is_known() -> None:
    assert FiguresModel().figures() == Figures()


def test_the_first_token_alone_gives_no_speed_and_no_step() -> None:
    figures = model_after(step(0.0, 1, 1)).figures()
    assert figures.tokens_per_second is None
    assert figures.tokens_per_step is None
    assert figures.verify_ms is None
    assert figures.time_to_first_token_s == pytest.approx(0.25)


def test_speed_is_that_of_the_last_moments() -> None:
    slow = [step(0.0, 1, 1), step(1.0, 2, 1), step(2.0, 3, 1)]
    fast = [step(2.0 + 0.1 * count, 3 + 4 * count, 4) for count in range(1, 21)]
    assert model_after(*slow).figures().tokens_per_second == pytest.approx(1.0)
    assert model_after(*slow, *fast).figures().tokens_per_second == pytest.approx(40.0)


def test_acceptance_and_tokens_per_step_are_over_the_whole_answer() -> None:
    figures = model_after(step(0.0, 1, 1), step(0.1, 5, 4), step(0.2, 7, 2)).figures()
    assert figures.acceptance == pytest.approx(4 / 14)
    assert figures.tokens_per_step == pytest.approx(3.0)
    assert figures.width == 8
    assert (figures.draft_ms, figures.verify_ms, figures.other_ms) == (10.0, 60.0, 3.0)
    assert figures.context_used == 107


def test_plain_mode_has_no_acceptance_rather_than_none_accepted() -> None:
    steps = [step(0.5 * count, 1 + 10 * count, 1, mode="plain") for count in range(5)]
    figures = model_after(*steps).figures()
    assert figures.acceptance is None
    assert figures.tokens_per_step is None
    assert figures.speed_up is None
    assert figures.tokens_per_second == pytest.approx(20.0)


def test_speed_up_waits_until_it_means_something() -> None:
    assert model_after(step(0.0, 1, 1), step(0.4, 41, 8)).figures().speed_up is None
    assert model_after(step(0.0, 1, 1), step(1.0, 41, 8)).figures().speed_up == pytest.approx(2.0)


def test_the_end_replaces_what_was_estimated() -> None:
    model = model_after(step(0.0, 1, 1), step(1.0, 41, 8))
    model.done(done())
    figures = model.figures()
    assert figures.tokens_per_second == 50.0
    assert figures.time_to_first_token_s == 0.21
    assert figures.speed_up == pytest.approx(2.5)


def test_a_load_in_between_does_not_count_for_the_first_token() -> None:
    model = FiguresModel()
    model.begin(now_s=0.0)
    model.loaded(LOADED, now_s=30.0)
    model.step(step(0.0, 1, 1), now_s=30.5)
    assert model.figures().time_to_first_token_s == pytest.approx(0.5)


def test_a_new_answer_forgets_the_last_one_but_not_the_context() -> None:
    model = model_after(step(0.0, 1, 1), step(1.0, 41, 8))
    model.begin(now_s=20.0)
    assert model.figures().tokens_per_second is None
    assert model.figures().context_used == 141
    model.reset()
    assert model.figures().context_used is None


def test_a_dead_engine_has_no_memory_and_no_plain_speed() -> None:
    model = model_after()
    model.memory(Heartbeat(1_500_000_000, 8_000_000_000))
    assert (model.figures().memory_bytes, model.figures().free_bytes) == (1_500_000_000, 8_000_000_000)
    model.memory(None)
    model.loaded(None, now_s=0.0)
    figures = model.figures()
    assert (figures.memory_bytes, figures.free_bytes) == (None, None)
    assert (figures.plain_tokens_per_second, figures.context_length) == (None, None)


def test_the_speed_dial_reaches_beyond_the_speed_and_never_shrinks_in_an_answer() -> None:
    model = model_after(step(0.0, 1, 1), step(0.1, 101, 8))
    top = model.figures().dial_top
    assert top >= 1000
    model.step(step(5.0, 102, 1), now_s=20.0)
    assert model.figures().dial_top == top


@pytest.mark.parametrize(("value", "top"), [(0.5, 10), (10, 10), (11, 20), (47, 50), (50, 50), (51, 100), (420, 500)])
def test_dial_scales_are_round(value: float, top: float) -> None:
    assert dial_top(value) == top


def test_plain_decoding_is_compared_over_the_tokens_after_the_first() -> None:
    compared = compare_with_plain(done(tokens=101, decode_s=2.0, plain_ms=50.0))
    assert compared is not None
    assert (compared.plain_s, compared.took_s, compared.speed_up) == (5.0, 2.0, 2.5)


@pytest.mark.parametrize(
    "end", [done(mode="auto", proposed=0), done(plain_ms=0.0), done(tokens=3), done(tokens=0, decode_s=1.0)]
)
def test_no_comparison_where_it_would_say_nothing(end: Done) -> None:
    assert compare_with_plain(end) is None
    assert "plain" not in words.answer_line(SavedFigures.of(end))


@pytest.mark.parametrize(("speed_up", "expected"), [(2.1, "faster"), (1.04, "equal"), (0.96, "equal"), (0.6, "slower")])
def test_verdicts(speed_up: float, expected: str) -> None:
    assert verdict(speed_up) == expected


def test_a_loss_is_said_as_plainly_as_a_gain() -> None:
    assert words.verdict_text(2.14) == "2.1x plain speed"
    assert words.verdict_text(1.0) == "as fast as plain"
    assert words.verdict_text(0.6) == "slower: 0.60x plain speed"
    assert "loses" in words.verdict_sentence(0.6)


def test_the_line_under_an_answer() -> None:
    assert words.answer_line(SavedFigures.of(done())) == (
        "50.0 tok/s  ·  101 tokens  ·  0.21 s to first token  ·  3.3 tokens per step\n"
        "2.50x plain speed  ·  plain would take 5.00 s, took 2.00 s"
    )
    cut = done(mode="plain", proposed=0, accepted_per_step=1.0, finish_reason="length")
    assert words.answer_line(SavedFigures.of(cut)) == (
        "50.0 tok/s  ·  101 tokens  ·  0.21 s to first token  ·  cut at the token limit"
    )
    one = done(tokens=1, accepted_per_step=0.0, finish_reason="cancelled")
    assert words.answer_line(SavedFigures.of(one)) == "1 token  ·  0.21 s to first token  ·  stopped"


def test_units() -> None:
    assert [words.speed(value) for value in (None, 48.34, 218.5)] == ["—", "48.3", "218"]
    assert [words.seconds(value) for value in (None, 0.214, 12.34)] == ["—", "0.21 s", "12.3 s"]
    assert [words.milliseconds(value) for value in (None, 0.44, 56.7)] == ["—", "0.4 ms", "57 ms"]
    assert [words.memory(value) for value in (None, 312_400_000, 6_120_000_000)] == ["—", "312 MB", "6.1 GB"]
    assert [words.count_of(1204, 8192), words.count_of(None, 2048), words.count_of(3, None)] == [
        "1,204 of 8,192", "0 of 2,048", "—",
    ]  # fmt: skip


# ------------------------------------------------------------------------ positions, kinds of text


def test_acceptance_by_position_counts_the_blocks_that_proposed_a_token_there() -> None:
    steps = [step(0.1 * n, 1, accepted + 1, width=4) for n, accepted in enumerate((3, 1, 1, 0), 1)]
    narrow = step(0.5, 1, 3, width=3)
    positions = model_after(step(0.0, 1, 1), *steps, narrow).figures().positions
    assert [(each.offered, each.accepted) for each in positions] == [(5, 4), (5, 2), (4, 1)]
    assert [each.share for each in positions] == [0.8, 0.4, 0.25]


def test_a_share_of_few_blocks_is_no_share() -> None:
    positions = model_after(step(0.0, 1, 1), *(step(0.1 * n, 1, 2) for n in (1, 2, 3))).figures().positions
    assert {each.share for each in positions} == {None}


def test_tokens_per_step_are_told_by_kind_of_text() -> None:
    texts = ["Here:\n", "```", "py\n", *["code\n"] * 8, "```\n", *["prose "] * 8]
    steps = [step(0.1 * n, 1, 3 if text == "code\n" else 2, text=text) for n, text in enumerate(texts, 1)]
    thinking = [step(10 + n, 1, 4, text="", thinking="hm") for n in range(8)]
    kinds = dict(model_after(step(0.0, 1, 1, text=""), *thinking, *steps).figures().kinds)
    assert kinds["thinking"] == 4.0
    assert kinds["code"] == pytest.approx((8 * 3 + 2) / 9)  # the step that ends the fence was within it
    assert kinds["prose"] == 2.0


def test_a_kind_of_text_with_few_blocks_is_not_told() -> None:
    assert model_after(step(0.0, 1, 1), *(step(0.1 * n, 1, 2) for n in range(1, 8))).figures().kinds == ()


# ------------------------------------------------------------------------ the chat


def ended(model: FiguresModel, end: Done, *steps: Step) -> None:
    model.begin(now_s=0.0)
    for each in steps:
        model.step(each, now_s=0.1)
    model.done(end)


def test_a_chat_sums_its_answers_and_the_one_under_way() -> None:
    model = model_after(step(0.0, 1, 1), step(1.0, 41, 40, width=64))
    model.done(done(tokens=41, decode_s=1.0))
    ended(model, done(tokens=21, decode_s=2.0, mode="plain", proposed=0), *(step(2.0, 21, 20, "plain"),))
    model.begin(now_s=0.0)
    model.step(step(0.0, 1, 1), now_s=0.1)
    model.step(step(1.0, 11, 10, width=16), now_s=0.1)
    chat = model.figures("chat")
    assert chat.answers == 2
    assert chat.tokens_per_second == pytest.approx((40 + 20 + 10) / 4.0)
    assert chat.acceptance == pytest.approx((39 + 9) / (63 + 15))
    assert (chat.plain_s, chat.took_s) == (2.0, 1.0)  # the plain answer is compared with nothing
    assert chat.time_to_first_token_s is None
    model.reset()
    assert model.figures("chat") == model_after().figures("chat")


def test_an_answer_that_broke_off_counts_in_the_chat() -> None:
    model = model_after(step(0.0, 1, 1), step(1.0, 41, 40))
    model.begin(now_s=20.0)
    assert model.figures("chat").answers == 1
    assert model.figures("chat").tokens_per_second == pytest.approx(40.0)


def test_an_opened_chat_begins_with_its_kept_answers() -> None:
    model = model_after(step(0.0, 1, 1), step(1.0, 41, 40))
    kept = SavedFigures.of(done(tokens=101, decode_s=2.0))
    model.open_chat([kept, kept])
    chat = model.figures("chat")
    assert (chat.answers, chat.tokens_per_second, chat.speed_up) == (2, 50.0, 2.5)
    assert chat.acceptance == pytest.approx(70 / 210)
    assert chat.draft_ms is None  # not kept
    assert model.figures().tokens_per_second is None


def test_a_kept_answer_is_shown_until_the_next_one_begins() -> None:
    model = model_after(step(0.0, 1, 1), step(1.0, 41, 8))
    model.mode_changed(ModeChanged("gpu", "Expected here: more.", "choice"))
    model.show_saved(SavedFigures.of(done(tokens=101, decode_s=0.5, plain_ms=40.0)))
    shown = model.figures()
    assert shown.saved
    assert (shown.tokens_per_second, shown.plain_tokens_per_second) == (200.0, 25.0)
    assert (shown.plain_s, shown.took_s, shown.speed_up) == (4.0, 0.5, 8.0)
    assert shown.dial_top >= 200
    assert shown.modes == (("gpu", 1.0),)
    assert shown.changes == ()
    assert (shown.draft_ms, shown.positions, shown.memory_bytes) == (None, (), None)
    model.show_saved(None)
    assert not model.figures().saved
    model.show_saved(SavedFigures())
    assert model.figures().tokens_per_second is None
    model.begin(now_s=20.0)
    assert not model.figures().saved


# ------------------------------------------------------------------------ is a draft at work


def plain_answer(model: FiguresModel, asked: Mode = "auto", count: int = 10) -> FiguresModel:
    model.begin(0.0, asked)
    for n in range(count):
        model.step(step(0.1 * n, n + 1, 1, "plain"), now_s=0.1)
    return model


def with_pair(loaded: Loaded) -> FiguresModel:
    model = FiguresModel()
    model.loaded(loaded, now_s=0.0)
    return model


@pytest.mark.parametrize(
    ("loaded", "asked", "reason"),
    [
        (LOADED, "plain", ""),
        (LOADED, "auto", "no draft is expected to be faster"),
        (Loaded(PAIR, ("plain",), (), 0, 2048, 1.5, 20.0), "auto", "This pair has no draft."),
        (Loaded(PAIR, ("plain",), (), 0, 2048, 1.5, 20.0), "gpu", "This pair has no draft."),
        (
            Loaded(PAIR, ("plain", "gpu"), (MissingMode("mirror", "Layer 2 differs."),), 16, 2048, 1.5, 20.0),
            "mirror",
            "Layer 2 differs.",
        ),
    ],
)
def test_an_answer_without_a_draft_says_why_unless_that_was_asked(loaded: Loaded, asked: Mode, reason: str) -> None:
    inactive = plain_answer(with_pair(loaded), asked).figures().inactive
    assert (inactive == "") is (reason == "")
    assert reason in inactive


def test_a_few_plain_steps_are_no_reason_to_speak() -> None:
    assert plain_answer(with_pair(LOADED), count=8).figures().inactive == ""


def test_speculation_that_was_given_up_says_why_and_is_active_again_later() -> None:
    model = with_pair(LOADED)
    model.begin(now_s=0.0)
    for n in range(10):
        model.step(step(0.1 * n, n + 1, 2), now_s=0.1)
    assert model.figures().inactive == ""
    model.mode_changed(ModeChanged("plain", "Expected here: less.", "choice"))
    for n in range(10, 40):
        model.step(step(0.1 * n, n + 1, 1, "plain"), now_s=0.1)
    assert model.figures().inactive == "Expected here: less."
    for n in range(40, 60):
        model.step(step(0.1 * n, n + 1, 2), now_s=0.1)
    assert model.figures().inactive == ""


def test_changes_of_mode_are_kept_with_time_and_reason_but_not_without_end() -> None:
    model = model_after(step(0.0, 1, 1), step(1.5, 3, 2))
    model.mode_changed(ModeChanged("gpu", "The programs failed.", "failure"))
    (change,) = model.figures().changes
    assert (change.at_s, change.mode, change.failure) == (1.5, "gpu", True)
    assert words.change_line(change, Devices()) == "1.5 s: failed, now GPU draft. The programs failed."
    assert model.figures().mode_reason == ""
    for _ in range(2 * MOST_CHANGES):
        model.mode_changed(ModeChanged("plain", "x", "choice"))
    assert len(model.figures().changes) == MOST_CHANGES
    model.begin(now_s=0.0)
    assert model.figures().changes == ()


def test_the_counterfactual_is_a_sentence() -> None:
    assert words.counterfactual(12.4, 31.0) == "12.4 s; plain decoding would have taken 31.0 s"
    assert words.counterfactual(None, None) == "—"
