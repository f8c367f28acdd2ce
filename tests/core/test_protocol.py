"""The wire: what is encoded comes back, and bytes that are no message give an error, never anything else."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Problem, ProtocolError
from core.pairs import Pair
from core.protocol import (
    HEADER_BYTES,
    MAX_FRAME_BYTES,
    Cancel,
    ChatMessage,
    Done,
    EventFrame,
    Failed,
    Generate,
    GenerateOptions,
    Load,
    Loaded,
    RequestFrame,
    Step,
    Unload,
    Unloaded,
    decode_event,
    decode_request,
    encode,
    ends,
    payload_length,
)

OPTIONS = GenerateOptions(mode="plain", width=4, max_tokens=10, temperature=0.5, seed=3, top_k=9, stop=("a", "b"))
PAIR = Pair("pair", "/models/target", None)


def payload(frame):
    data = encode(frame)
    assert payload_length(data[:HEADER_BYTES]) == len(data) - HEADER_BYTES
    return data[HEADER_BYTES:]


@pytest.mark.parametrize(
    "request_",
    [
        Load(PAIR),
        Unload(),
        Cancel(7),
        Generate(PAIR, (ChatMessage("user", "Grüße 👋🏽"),), OPTIONS),
    ],
    ids=lambda request_: type(request_).__name__,
)
def test_requests_come_back_as_sent(request_):
    frame = RequestFrame(3, request_)
    assert decode_request(payload(frame)) == frame


@given(st.text(), st.integers(0, 2**31))
def test_events_come_back_as_sent(text, call_id):
    frame = EventFrame(call_id, Failed(Problem("Kind", text, text, text)))
    assert decode_event(payload(frame)) == frame


@given(st.binary(max_size=300))
def test_any_bytes_give_a_message_or_an_error(data):
    for decode in (decode_request, decode_event):
        with contextlib.suppress(ProtocolError):
            decode(data)


def test_every_cut_of_a_message_is_refused():
    whole = payload(EventFrame(1, Done.nothing("gpu")))
    for length in range(len(whole)):
        with pytest.raises(ProtocolError):
            decode_event(whole[:length])


@pytest.mark.parametrize("length", [0, MAX_FRAME_BYTES + 1, 0xFFFFFFFF])
def test_absurd_lengths_are_refused_before_anything_is_read(length):
    with pytest.raises(ProtocolError):
        payload_length(length.to_bytes(4, "little"))


def test_a_request_ends_with_its_own_last_event_or_a_failure():
    loaded = Loaded(PAIR, ("plain",), (), 0, 512, 0.1, 1.0)
    generate = Generate(PAIR, ())
    failed = Failed(Problem("Kind", "No."))
    assert ends(Load(PAIR), loaded)
    assert not ends(generate, loaded), "a Generate that loads the pair goes on"
    assert ends(generate, Done.nothing("gpu"))
    assert ends(Unload(), Unloaded())
    assert all(ends(request, failed) for request in (Load(PAIR), generate, Unload()))
    assert Step not in {type(event) for event in (loaded, failed)}
