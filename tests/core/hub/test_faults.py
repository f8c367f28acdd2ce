"""Every fault of a hub: what is sent again, what the user reads, and that no wrong byte becomes a model."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from core.errors import (
    ChecksumFailed,
    ConnectionLost,
    GatedModel,
    HubBusy,
    HubFault,
    HubRefused,
    HubUnreachable,
    LinkExpired,
    ModelNotFound,
    TokenRefused,
    TransferStalled,
    WrongLength,
)
from helpers.downloads import MIB, REPO, STALL_S, WEIGHTS, new_download, parts, published, snapshot
from helpers.fake_hub import TOKEN, FakeHub, Fault, etag, status
from helpers.loop import in_loop

SIZE = 6 * MIB + 123


@pytest.fixture
def files():
    return {"config.json": b"{}", WEIGHTS: random.Random(7).randbytes(SIZE)}


def on_content(*faults: Fault) -> Callable[[FakeHub], None]:
    return lambda hub: hub.on_content[WEIGHTS].extend(faults)


def on_resolve(*faults: Fault) -> Callable[[FakeHub], None]:
    return lambda hub: hub.on_resolve[WEIGHTS].extend(faults)


def patience_of(name: str) -> dict[str, float]:
    """Only a stall is to be taken for one."""
    return {"stall_s": STALL_S} if "stall" in name else {}


PASSING = {
    "cut": on_content(Fault(cut_after=2 * MIB)),
    "cut before the first byte": on_content(Fault(cut_after=0)),
    "cut again and again": on_content(*[Fault(cut_after=MIB // 2)] * 11),
    "cut without a length": on_content(Fault(cut_after=3 * MIB, unlabelled=True)),
    "no length at all": on_content(Fault(unlabelled=True)),
    "stall": on_content(Fault(stall_after=2 * MIB)),
    "stall before the first byte": on_content(Fault(stall_after=0)),
    "server fault": on_content(status(500), status(503)),
    "hub fault": on_resolve(status(500), status(502)),
    "slow down": on_resolve(status(429, Retry_After="0")),
    "slow down on content": on_content(Fault(cut_after=MIB), status(429, Retry_After="0")),
    "expired link": on_content(Fault(cut_after=MIB), status(403), status(403)),
    "vanished content": on_content(status(404)),
    "range not satisfiable, once": on_content(Fault(cut_after=3 * MIB), status(416)),
    "range ignored, once": on_content(Fault(cut_after=3 * MIB), Fault(ignores_range=True)),
}


@pytest.mark.parametrize("name", PASSING)
@in_loop
async def test_a_fault_that_passes_costs_at_most_one_mebibyte(hub, settings, files, name):
    PASSING[name](hub)
    folder = await new_download(settings, **patience_of(name)).run()
    assert snapshot(folder) == files
    assert hub.sent[WEIGHTS] <= SIZE + MIB
    assert hub.on_content[WEIGHTS] == hub.on_resolve[WEIGHTS] == type(hub.on_api)(), "every fault was met"
    assert parts(settings) == {}


@pytest.mark.parametrize("always", [Fault(ignores_range=True), status(416)])
@in_loop
async def test_a_server_that_never_continues_a_file_sends_it_whole(hub, settings, files, always):
    hub.on_content[WEIGHTS].extend([Fault(cut_after=3 * MIB), always, always])
    assert snapshot(await new_download(settings).run()) == files
    assert hub.sent[WEIGHTS] <= 3 * MIB + SIZE + MIB


@in_loop
async def test_links_are_resolved_anew_at_every_attempt(hub, settings, files):
    hub.single_use_links = True
    hub.on_content[WEIGHTS].extend([Fault(cut_after=MIB), Fault(stall_after=MIB)])
    assert snapshot(await new_download(settings, stall_s=STALL_S).run()) == files
    assert [request.status for request in hub.asked(WEIGHTS)] == [302, 200, 302, 206, 302, 206]


def redirect_to_another_length(hub: FakeHub) -> None:
    link = f"{hub.content_url}/content/{hub.new_link()}/{REPO}/{WEIGHTS}"
    hub.on_resolve[WEIGHTS].append(status(302, X_Linked_Size="9", Location=link))


STAYING = {
    "stall": (on_content(*[Fault(stall_after=0)] * 4), TransferStalled, "localhost sends no more bytes", "kept"),
    "cut": (on_content(*[Fault(cut_after=0)] * 4), ConnectionLost, "connection to localhost broke off", "kept"),
    "server fault": (on_content(*[status(500)] * 4), HubFault, r"fault of its own \(500\)", "mirror"),
    "slow down": (on_resolve(*[status(429, Retry_After="0")] * 4), HubBusy, "asks to slow down", "Wait"),
    "expired link": (on_content(*[status(403)] * 4), LinkExpired, r"refuses the hub's link \(403\)", "--endpoint"),
    "wrong length": (on_content(Fault(longer_by=9)), WrongLength, "another model.safetensors", "mirror"),
    "shorter": (on_content(Fault(longer_by=-9)), WrongLength, "another model.safetensors", "mirror"),
    "longer, when continued": (
        on_content(Fault(cut_after=MIB), Fault(longer_by=9)),
        WrongLength,
        "another model.safetensors",
        "mirror",
    ),
    "redirect to another length": (redirect_to_another_length, WrongLength, "another model.safetensors", "mirror"),
    "longer, unsaid": (on_content(Fault(longer_by=9, unlabelled=True)), WrongLength, "more", "mirror"),
    "wrong byte": (on_content(Fault(wrong_byte=SIZE // 2)), ChecksumFailed, "checksum is wrong", "this file alone"),
    "refused": (on_resolve(status(403)), HubRefused, r"127\.0\.0\.1 refuses the request \(403\)", "--endpoint"),
    "token": (on_resolve(status(401)), TokenRefused, "asks for a token", "hf auth login"),
    "gated": (on_resolve(status(403, error="GatedRepo")), GatedModel, "gated", "Ask for access"),
    "gone": (on_resolve(status(404, error="RepoNotFound")), ModelNotFound, "no such model", "Check its name"),
}


@pytest.mark.parametrize("name", STAYING)
@in_loop
async def test_a_fault_that_stays_is_told_and_makes_no_model(hub, settings, files, name):
    prepare, kind, sentence, hint = STAYING[name]
    prepare(hub)
    download = new_download(settings, **patience_of(name))
    with pytest.raises(kind, match=sentence):
        await download.run()
    problem = download.progress.problem
    assert download.progress.state == "failed"
    assert problem is not None
    assert (problem.kind, hint in problem.hint) == (kind.__name__, True)
    assert problem.detail
    assert published(settings) == []
    # The fault over, the same download succeeds.
    assert snapshot(await download.run()) == files


@in_loop
async def test_a_model_that_is_gated_goes_on_where_it_was_once_the_token_may(hub, settings, files, token_file):
    hub.on_content[WEIGHTS].append(Fault(cut_after=2 * MIB))
    hub.on_resolve[WEIGHTS].extend([Fault(), status(403, error="GatedRepo")])
    download = new_download(settings)
    with pytest.raises(GatedModel):
        await download.run()
    hub.repos[REPO].gated = True
    hub.repos[REPO].granted.add(TOKEN)
    token_file.write_text(TOKEN)
    assert snapshot(await download.run()) == files
    assert hub.sent[WEIGHTS] <= SIZE + MIB


@in_loop
async def test_a_hub_that_is_not_there_is_told_with_the_way_to_a_mirror(settings, hub):
    hub.__exit__()
    with pytest.raises(HubUnreachable, match=r"127\.0\.0\.1 cannot be reached") as refused:
        await new_download(settings).run()
    hint = refused.value.problem.hint
    assert "a mirror of it helps: the hub's address can be changed in the window's settings" in hint
    assert "--endpoint" in hint
    assert "--proxy" in hint


@in_loop
async def test_a_content_server_that_is_not_there_is_told_by_name(settings, hub):
    hub.content_url = "http://content.invalid"
    with pytest.raises(HubUnreachable, match=r"content\.invalid cannot be reached"):
        await new_download(settings).run()
    assert published(settings) == []


@in_loop
async def test_a_mirror_that_redirects_everything_elsewhere_is_followed(settings, hub, files, tmp_path):
    with FakeHub({}) as mirror:
        mirror.moved_to = hub.url.replace("127.0.0.1", "localhost")
        mirrored = type(settings)(endpoint=mirror.url, cache=str(tmp_path / "other"))
        assert snapshot(await new_download(mirrored).run()) == files


@in_loop
async def test_a_damaged_file_does_not_stop_the_others(hub, settings, files):
    files["model-00002.safetensors"] = random.Random(8).randbytes(MIB)
    hub.on_content[WEIGHTS].append(Fault(wrong_byte=5))
    download = new_download(settings)
    with pytest.raises(ChecksumFailed):
        await download.run()
    states = {file.name: file.state for file in download.progress.files}
    assert states == {"config.json": "done", "model-00002.safetensors": "done", WEIGHTS: "failed"}
    before = hub.sent["model-00002.safetensors"]
    assert snapshot(await download.run()) == files
    assert hub.sent["model-00002.safetensors"] == before


@in_loop
async def test_a_file_that_is_whole_but_not_verified_is_not_asked_for(hub, settings, files):
    """Asking for what comes after the end is the 416 that mirrors answer."""

    part = settings.cache_dir / "models--acme--tiny/blobs" / f"{etag(files[WEIGHTS])}.mirror-sd-part"
    part.parent.mkdir(parents=True)
    part.write_bytes(files[WEIGHTS])
    assert snapshot(await new_download(settings).run()) == files
    assert hub.asked(WEIGHTS) == []


@in_loop
async def test_a_beginning_with_a_wrong_byte_makes_no_model(settings, files):

    part = settings.cache_dir / "models--acme--tiny/blobs" / f"{etag(files[WEIGHTS])}.mirror-sd-part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"wrong" + files[WEIGHTS][5 : 2 * MIB])
    with pytest.raises(ChecksumFailed):
        await new_download(settings).run()
    assert published(settings) == []
    assert parts(settings) == {}, "what can become nothing right is gone"
