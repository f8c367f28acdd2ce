"""The search at the hub: what is listed of each model, a limit of time, offline, answers that are none."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from core.errors import HubFault, HubOffline, TransferStalled, UnreadableAnswer
from core.hub import search
from core.hub.search import HubModel, search_models
from core.hub.settings import HubSettings
from helpers.fake_hub import Fault, Repo, status
from helpers.loop import in_loop


@pytest.fixture(autouse=True)
def models(hub):
    hub.repos["acme/tiny-gguf"] = Repo({"tiny.gguf": b"GGUF"})
    hub.repos["bob/tiny-draft"] = Repo(
        {"config.json": b'{"architectures": ["DFlashDraftModel"]}', "model.safetensors": b""}, gated=True
    )
    hub.repos["bob/other"] = Repo({})


@in_loop
async def test_a_text_finds_models_with_what_their_owners_say(settings):
    found = {model.repo: model for model in await search_models(settings, "tiny")}
    assert found == {
        "acme/tiny": HubModel("acme/tiny", (), "qwen3", has_safetensors=True, downloads=9),
        "acme/tiny-gguf": HubModel("acme/tiny-gguf", has_safetensors=False, downloads=14),
        "bob/tiny-draft": HubModel(
            "bob/tiny-draft", ("DFlashDraftModel",), has_safetensors=True, gated=True, downloads=14
        ),
    }


@in_loop
async def test_one_request_reads_no_file_and_any_text_is_only_text(settings, hub):
    assert await search_models(settings, "a&limit=9999 ü/../#") == ()
    (request,) = hub.requests
    query = parse_qs(urlsplit(request.path).query)
    assert query["search"] == ["a&limit=9999 ü/../#"]
    assert query["limit"] == [str(search.MOST_FOUND)]


@in_loop
async def test_a_mirror_that_lists_names_alone_leaves_the_rest_open(settings, hub):
    hub.on_search.append(Fault(body=json.dumps([{"id": "acme/tiny"}]).encode()))
    assert await search_models(settings, "tiny") == (HubModel("acme/tiny", has_safetensors=None),)


@in_loop
async def test_offline_nothing_is_sent(settings, hub):
    with pytest.raises(HubOffline):
        await search_models(HubSettings(settings.endpoint, offline=True), "tiny")
    assert not hub.requests


@in_loop
async def test_a_hub_that_does_not_answer_is_given_up(settings, hub, monkeypatch):
    monkeypatch.setattr(search, "TIME_LIMIT_S", 0.3)
    hub.on_search.append(Fault(stall_after=0))
    with pytest.raises(TransferStalled, match="not answered"):
        await search_models(settings, "tiny")


NO_LISTS = [
    b"<html>",
    b"{}",
    b'[{"name": "x"}]',
    b'[{"id": 5}]',
    b'[{"id": "\xff"}]',
    b'[{"id": "a/b", "config": {"x": ' + b"[" * 100_000,
    b'[{"id": "a/b", "downloads": ' + b"9" * 5000 + b"}]",
]


@pytest.mark.parametrize("body", NO_LISTS)
def test_an_answer_that_is_no_list_of_models_is_told(settings, hub, body):
    hub.on_search.append(Fault(body=body))

    @in_loop
    async def search_once():
        with pytest.raises(UnreadableAnswer):
            await search_models(settings, "tiny")

    search_once()


@in_loop
async def test_a_fault_of_the_hub_is_told_at_once(settings, hub):
    hub.on_search.append(status(503))
    with pytest.raises(HubFault):
        await search_models(settings, "tiny")
