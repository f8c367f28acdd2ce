"""Reading at the hub without a download."""

from __future__ import annotations

import json

import pytest

from core.errors import (
    BadRequest,
    FileNotOnHub,
    GatedModel,
    HubFault,
    HubOffline,
    ModelNotFound,
    RevisionNotFound,
    UnreadableAnswer,
    UnreadableModel,
)
from core.hub.cache import snapshot_file
from core.hub.client import HubClient
from core.hub.listing import list_model
from core.hub.remote import read_json, read_range, safetensors_header
from core.hub.settings import HubSettings
from helpers.fake_hub import LFS_BYTES, TOKEN, Fault, status
from helpers.loop import in_loop

REPO = "acme/tiny"
WEIGHTS = "model.safetensors"


def weights(header: object, tensor_bytes: int = 1_000_000) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(tensor_bytes)


@in_loop
async def test_a_listing_has_the_commit_and_size_and_hash_of_every_file(hub, client, files):
    async with client:
        listing = await list_model(client, REPO)
    assert listing.commit == hub.repos[REPO].commit
    assert {file.name: file.bytes for file in listing.files} == {name: len(data) for name, data in files.items()}
    assert {file.name: len(file.etag) for file in listing.files} == {"config.json": 40, WEIGHTS: 64}


@in_loop
async def test_a_header_is_read_without_the_weights(hub, client, files):
    header = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    files[WEIGHTS] = weights(header, 8_000_000)
    async with client:
        assert await safetensors_header(client, REPO, hub.repos[REPO].commit, WEIGHTS) == header
    assert hub.sent[WEIGHTS] <= 128 * 1024
    assert [request.range for request in hub.asked(WEIGHTS)] == ["bytes=0-131071"] * 2, "the hub's and the content's"


@in_loop
async def test_a_long_header_takes_a_second_request(hub, client, files):
    header = {f"model.layers.{i}.weight": {"dtype": "BF16", "shape": [i, 7]} for i in range(5000)}
    files[WEIGHTS] = weights(header)
    async with client:
        assert await safetensors_header(client, REPO, hub.repos[REPO].commit, WEIGHTS) == header
    assert len({request.range for request in hub.asked(WEIGHTS)}) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\1\2\3",
        bytes(20_000),
        b"\xff" * 20_000,
        (500_000).to_bytes(8, "little") + b"{}",
        (200_000).to_bytes(8, "little") + b" " * 150_000,
        weights([1, 2]),
        (10).to_bytes(8, "little") + b"no JSON at all" + bytes(9000),
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
    ],
)
@in_loop
async def test_what_is_no_weights_file_is_told(hub, client, files, content):
    files[WEIGHTS] = content
    async with client:
        with pytest.raises(UnreadableModel, match=r"model\.safetensors of acme/tiny"):
            await safetensors_header(client, REPO, hub.repos[REPO].commit, WEIGHTS)


@in_loop
async def test_a_config_is_read(hub, client):
    async with client:
        assert await read_json(client, REPO, hub.repos[REPO].commit, "config.json") == {"model_type": "qwen3"}


@in_loop
async def test_what_the_cache_holds_is_read_there_even_offline(hub, settings):
    path = snapshot_file(settings.cache_dir, REPO, "c" * 40, "config.json")
    path.parent.mkdir(parents=True)
    path.write_text('{"here": true}')
    async with HubClient(HubSettings(hub.url, offline=True, cache=settings.cache)) as client:
        assert await read_json(client, REPO, "c" * 40, "config.json") == {"here": True}
        with pytest.raises(HubOffline):
            await read_json(client, REPO, "c" * 40, "tokenizer.json")
    assert hub.requests == []


@in_loop
async def test_a_fault_that_passes_is_not_seen(hub, client):
    hub.on_api.extend([status(500), status(429, Retry_After="0")])
    hub.on_content[WEIGHTS].extend([Fault(cut_after=10)])
    async with client:
        listing = await list_model(client, REPO)
        assert await read_range(client, REPO, listing.commit, WEIGHTS, 5, 4) == bytes([5, 6, 7, 8])


@in_loop
async def test_a_fault_that_stays_is_told(hub, client):
    hub.on_api.extend([status(503)] * 3)
    async with client:
        with pytest.raises(HubFault, match="503"):
            await list_model(client, REPO)


@in_loop
async def test_a_server_that_does_not_serve_parts_is_left_early(hub, client, files):
    files[WEIGHTS] = weights({}, 30_000_000)
    hub.on_content[WEIGHTS].append(Fault(ignores_range=True))
    async with client:
        assert await safetensors_header(client, REPO, hub.repos[REPO].commit, WEIGHTS) == {}
    assert hub.sent[WEIGHTS] < 20_000_000


@in_loop
async def test_a_range_behind_the_end_is_empty(hub, client):
    async with client:
        assert await read_range(client, REPO, hub.repos[REPO].commit, WEIGHTS, 10**9, 4) == b""


@pytest.mark.parametrize(
    ("repo", "revision", "kind"),
    [
        ("acme/none", "main", ModelNotFound),
        (REPO, "no-such-branch", RevisionNotFound),
        ("../../etc/passwd", "main", BadRequest),
        ("acme/ti--ny", "main", BadRequest),
        ("a/b/c", "main", BadRequest),
        ("", "main", BadRequest),
        (REPO, "../../../tmp/evil", BadRequest),
        (REPO, "/tmp/evil", BadRequest),
        (REPO, "", BadRequest),
    ],
)
@in_loop
async def test_a_wrong_name_is_told(client, repo, revision, kind):
    async with client:
        with pytest.raises(kind):
            await list_model(client, repo, revision)


@in_loop
async def test_a_missing_file_is_told(hub, client):
    async with client:
        with pytest.raises(FileNotOnHub):
            await read_json(client, REPO, hub.repos[REPO].commit, "tokenizer.json")


@in_loop
async def test_a_gated_model_is_listed_but_not_read_until_the_token_may(hub, client, token_file):
    hub.repos[REPO].gated = True
    async with client:
        listing = await list_model(client, REPO)
        assert listing.gated
        with pytest.raises(GatedModel) as refused:
            await read_json(client, REPO, listing.commit, "config.json")
        assert "hf auth login" in refused.value.problem.hint
        hub.repos[REPO].granted.add(TOKEN)
        token_file.write_text(TOKEN)
        assert await read_json(client, REPO, listing.commit, "config.json") == {"model_type": "qwen3"}


@in_loop
async def test_the_token_never_reaches_the_content_server(hub, client, token_file, files):
    token_file.write_text(TOKEN)
    assert len(files[WEIGHTS]) > LFS_BYTES
    async with client:
        await read_range(client, REPO, hub.repos[REPO].commit, WEIGHTS, 0, 4)
    assert [(request.host.partition(":")[0], request.token) for request in hub.asked(WEIGHTS)] == [
        ("127.0.0.1", TOKEN),
        ("localhost", ""),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>Welcome to the airport. Please log in.</html>",
        b"{}",
        b'{"sha": "not a commit", "siblings": []}',
        b'{"x": ' + b"[" * 100_000,
        b'{"sha": "%s", "siblings": [{"rfilename": "../../evil", "size": 1, "blobId": "%s"}]}' % (b"a" * 40, b"b" * 40),
        b'{"sha": "%s", "siblings": [{"rfilename": "x", "size": 1, "blobId": "../../evil"}]}' % (b"a" * 40),
        b'{"sha": "%s", "siblings": [{"rfilename": "x", "size": -1, "blobId": "%s"}]}' % (b"a" * 40, b"b" * 40),
    ],
)
@in_loop
async def test_an_answer_that_no_hub_gives_is_told(hub, client, answer):
    hub.on_api.append(Fault(body=answer))
    async with client:
        with pytest.raises(UnreadableAnswer, match="does not answer as a hub"):
            await list_model(client, REPO)
