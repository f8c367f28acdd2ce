"""The wire: what is encoded comes back, and bytes that are no message give an error, never anything else."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.check_messages import Check, CheckedPrompt, CheckStarted, Divergence, ModeVerdict, Verdict
from core.errors import Problem, ProtocolError
from core.kernel_messages import (
    BuildKernels,
    CleanKernels,
    CompileKernels,
    KernelEntry,
    KernelList,
    KernelOptions,
    KernelPackage,
    KernelProgress,
    KernelReport,
    KernelsBuilt,
    KernelsCleaned,
    KernelsCompiled,
    KernelsPlaced,
    ListKernels,
    PlaceKernels,
    ProgramPlacement,
)
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
    MissingMode,
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
REPORT = KernelReport({"fc.weight": 0.01}, ("fc.weight",), {})
ENTRY = KernelEntry("0" * 16, "/kernels/0", 3, "/drafts/one", KernelOptions(), "cpu", ("layer0",), 1.0, 2.0)
KERNEL_REQUESTS = [BuildKernels("", ""), CompileKernels(""), PlaceKernels(""), ListKernels(), CleanKernels(None)]
DIVERGENCE = Divergence(1, 7, 5, "a", None, "", None, 1e-3, near_tie=False)
CHECK = Check(PAIR, ("one", "two"), 8, ("gpu", "ane"), 0.5, 3)
CHECK_EVENTS = [
    CheckStarted(("plain", "gpu"), (MissingMode("ane", "No programs."),), 2),
    CheckedPrompt("gpu", 1, 8, 12.5, 1.5, DIVERGENCE, ""),
    Verdict(
        (
            ModeVerdict("plain", 2, 2, None, 10.0, 1.0, None, 0.0),
            ModeVerdict("mirror", 1, 2, DIVERGENCE, 12.5, 1.5, 0.4, 0.8),
        )
    ),
]
LAST_OF = {
    KernelsBuilt: [BuildKernels],
    KernelsCompiled: [CompileKernels],
    KernelsPlaced: [PlaceKernels],
    KernelList: [ListKernels],
    KernelsCleaned: [CleanKernels],
}


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
        BuildKernels("/drafts/one", "/out", KernelOptions("fp16", 16, 512)),
        CompileKernels("/drafts/one"),
        PlaceKernels("/drafts/one"),
        ListKernels(),
        CleanKernels(("0123456789abcdef",)),
        CleanKernels(None),
        CHECK,
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


@pytest.mark.parametrize(
    "event",
    [
        KernelProgress("quantise", "layer0", 3, 13, 0.5),
        KernelsBuilt((KernelPackage("layer0", "/out/layer0", 7),), REPORT),
        KernelsCompiled(ENTRY, False, "", {"hash": 0.1}, 0.5, REPORT),
        KernelList("/kernels", (ENTRY, KernelEntry("0" * 16, "/kernels/0", 3, problem="Damaged."))),
        KernelsCleaned(2, 10),
        KernelsPlaced("0" * 16, "cpu", (ProgramPlacement("layer0", 94, 0.0, 0.0, 1.0),)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_events_about_kernels_come_back_and_end_what_they_answer(event):
    frame = EventFrame(3, event)
    assert decode_event(payload(frame)) == frame
    ended = [type(request) for request in KERNEL_REQUESTS if ends(request, event)]
    assert ended == LAST_OF.get(type(event), [])


@pytest.mark.parametrize("event", CHECK_EVENTS, ids=lambda event: type(event).__name__)
def test_events_about_checks_come_back_and_can_be_hashed(event):
    frame = EventFrame(3, event)
    assert decode_event(payload(frame)) == frame
    assert hash(event) == hash(decode_event(payload(frame)).body)
    assert ends(CHECK, event) == isinstance(event, Verdict)


def test_a_verdict_is_lossless_unless_a_mode_has_a_difference_that_is_no_near_tie():
    near_tie = msgspec.structs.replace(DIVERGENCE, margin=1e-4, near_tie=True)
    sound = ModeVerdict("gpu", 1, 2, near_tie, 12.5, 1.5, None, 0.0)
    assert Verdict((sound,)).lossless
    assert not Verdict((sound, msgspec.structs.replace(sound, first_divergence=DIVERGENCE))).lossless


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
