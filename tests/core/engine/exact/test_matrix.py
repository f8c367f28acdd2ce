"""Tier A: a draft right for k tokens, every k and width, and every end of an answer at every place inside a block.

One session a width and k answers the same prompt again and again, as regenerating does: whatever an end in the middle
of a block left in the caches is what the next answer starts from. Greedy and seeded answers take turns, so what lies
behind the committed positions is always of another text. Models of one layer make thousands of answers affordable;
`test_exact.py` has deeper ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import pytest

from core.engine.answer import Answer
from core.engine.loader import LoadedPair
from core.engine.session import Session
from core.engine.stats import PlainCost
from core.pairs import Pair
from core.protocol import ChatMessage, Done, Generate, GenerateOptions
from helpers.decoding import ForcedSource, forced_source, plain_source, run, same_state
from helpers.letters import letters
from helpers.tiny import tiny_drafter, tiny_target

BLOCK = 16
WIDTHS = range(1, BLOCK + 1)
PROMPT = [87, 17, 60, 3, 41, 8, 22]
GREEDY, SEEDED = {"temperature": 0.0}, {"temperature": 1.0, "seed": 9}
"""With these the first block of either text has no token twice, so that each can be the one that ends it."""
TEXT_TOKENS = 24


@contextmanager
def named(**case: object) -> Iterator[None]:
    """A failure inside names the case."""
    try:
        yield
    except Exception as error:
        error.add_note(str(case))
        raise


@dataclass(frozen=True)
class Ended:
    """A plain answer that ended, and the session it left."""

    tokens: list[int]
    finish: str | None
    session: Session


class Plain:
    """What plain decoding gives, each answer decoded once."""

    def __init__(self) -> None:
        self.target = tiny_target(layers=1)
        changes = {"num_hidden_layers": 1, "layer_types": ("full_attention",), "num_target_layers": 1}
        self.drafter = tiny_drafter(self.target, block_size=BLOCK, target_layer_ids=(0,), **changes)
        self.tokenizer = letters()

    @cache  # noqa: B019 - lives as long as the module's tests
    def text(self, seeded: bool) -> Ended:
        """The whole text, which ends at its limit."""
        return self.ended(seeded, max_tokens=TEXT_TOKENS)

    @cache  # noqa: B019
    def ended(self, seeded: bool, eos: int = -1, max_tokens: int = TEXT_TOKENS) -> Ended:
        options = SEEDED if seeded else GREEDY
        plain = run(self.target, self.drafter, PROMPT, eos_ids=frozenset([eos]), max_tokens=max_tokens, **options)
        return Ended(plain.tokens, plain.finish, plain.session)

    @cache  # noqa: B019
    def stopped(self, seeded: bool, stop: str) -> tuple[Done, Session]:
        """The answer that the stop string ends."""
        session = Session(self.target, self.drafter)
        return self.answer(session, seeded, stop, mode="plain", width=None), session

    def answer(self, session: Session, seeded: bool, stop: str, mode: str, width: int | None) -> Done:
        """Answer as the worker does, text and all."""
        options = SEEDED if seeded else GREEDY
        loaded = LoadedPair(
            Pair("tiny", "", ""), self.target, self.tokenizer, self.drafter, session, plain_cost=PlainCost()
        )
        request = Generate(
            loaded.pair,
            (ChatMessage("user", self.tokenizer.decode(PROMPT)),),
            GenerateOptions(mode=mode, width=width, stop=(stop,), max_tokens=TEXT_TOKENS, **options),
        )
        *_, done = Answer(loaded, request, lambda: False).events()
        assert isinstance(done, Done)
        return done


@pytest.fixture(scope="module")
def plain() -> Plain:
    return Plain()


def test_the_texts_let_every_token_of_a_block_end_them(plain):
    for seeded in (False, True):
        assert len(set(plain.text(seeded).tokens[: BLOCK + 1])) == BLOCK + 1
        assert plain.text(seeded).finish == "length"


def cases(width: int) -> Iterator[tuple[int, int, bool]]:
    """k, the place in the first block, and whether seeded.

    A block of `width` rows has width - 1 proposals, so a draft right for more is the one right for all of them; and it
    gives k + 1 tokens, so these are the places in it.
    """
    for right in range(width):
        for place in range(right + 1):
            yield right, place, False
            yield right, place, True


@pytest.mark.parametrize("seeded", [False, True], ids=["greedy", "seeded"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_draft_right_for_k_tokens_gives_the_plain_text_and_state(plain, width, seeded):
    text = plain.text(seeded)
    for right in range(width):
        with named(k=right, width=width, seeded=seeded):
            source = forced_source(text.tokens, len(PROMPT), right, BLOCK) if width > 1 else plain_source
            options = SEEDED if seeded else GREEDY
            forced = run(plain.target, plain.drafter, PROMPT, source, width=width, max_tokens=TEXT_TOKENS, **options)
            assert forced.tokens == text.tokens
            assert forced.finish == "length"
            for step in forced.steps[1:]:
                assert step.accepted == min(right, len(step.proposals))
                assert len(step.proposals) < width
            assert max(len(step.proposals) for step in forced.steps) == width - 1
            assert same_state(forced.session, text.session)


@pytest.mark.parametrize("ending", ["end of sequence", "token limit"])
@pytest.mark.parametrize("width", WIDTHS)
def test_an_end_at_any_place_in_a_block_ends_as_plain_decoding_does(plain, width, ending):
    sessions = {right: Session(plain.target, plain.drafter) for right in range(width)}
    for right, place, seeded in cases(width):
        with named(k=right, width=width, place=place, seeded=seeded, ending=ending):
            text = plain.text(seeded).tokens
            at = 1 + place  # the first token comes from a pass of its own
            end = {"eos": text[at]} if ending == "end of sequence" else {"max_tokens": at + 1}
            expected = plain.ended(seeded, **end)
            forced = run(
                plain.target,
                plain.drafter,
                PROMPT,
                forced_source(text, len(PROMPT), right, BLOCK),
                width=width,
                eos_ids=frozenset([end.get("eos", -1)]),
                max_tokens=end.get("max_tokens", TEXT_TOKENS),
                session=sessions[right],
                **(SEEDED if seeded else GREEDY),
            )
            assert forced.tokens == expected.tokens == text[: at + 1]
            assert forced.finish == expected.finish == ("stop" if "eos" in end else "length")
            assert same_state(forced.session, expected.session)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_stop_string_at_any_place_in_a_block_ends_as_plain_decoding_does(plain, width, monkeypatch):
    """The stop string is two tokens' letters: complete at the place, begun before it, perhaps in the pass before."""
    sessions = {right: Session(plain.target, plain.drafter) for right in range(width)}
    for right, place, seeded in cases(width):
        with named(k=right, width=width, place=place, seeded=seeded):
            text, session = plain.text(seeded).tokens, sessions[right]
            stop = plain.tokenizer.decode(text[place : place + 2])
            expected, expected_session = plain.stopped(seeded, stop)
            source = ForcedSource(session, text, len(PROMPT), right, BLOCK)
            monkeypatch.setattr("core.engine.answer.make_source", lambda *_, source=source: source)
            done = plain.answer(session, seeded, stop, mode="gpu", width=width)
            monkeypatch.undo()
            assert done.finish_reason == expected.finish_reason == "stop_string"
            assert done.text == expected.text == plain.tokenizer.decode(text[:place])
            assert list(done.token_ids) == list(expected.token_ids) == text[: place + 2]
            # The block's tokens behind the stop string were committed with it: the next prompt trims them.
            assert session.tokens == [*PROMPT, *text][: session.length]
            session.trim_to(expected_session.length)
            assert same_state(session, expected_session)


@pytest.mark.parametrize("seeded", [False, True], ids=["greedy", "seeded"])
def test_an_end_of_sequence_that_is_only_proposed_ends_nothing(plain, seeded):
    text = plain.text(seeded).tokens
    # What the source proposes in the first block where it stops being right, unless the text ended there by itself.
    wrongs = {right: token ^ 1 for right, token in enumerate(text[1:BLOCK]) if token ^ 1 not in text[: right + 2]}
    assert len(wrongs) > BLOCK // 2
    for right, wrong in wrongs.items():
        end = {"max_tokens": right + 4}
        expected = plain.ended(seeded, eos=wrong, **end)
        with named(k=right, seeded=seeded):
            forced = run(
                plain.target,
                plain.drafter,
                PROMPT,
                forced_source(text, len(PROMPT), right, BLOCK),
                eos_ids=frozenset([wrong]),
                **end,
                **(SEEDED if seeded else GREEDY),
            )
            assert wrong in forced.steps[1].proposals
            assert (forced.tokens, forced.finish) == (expected.tokens, expected.finish)
            assert same_state(forced.session, expected.session)
