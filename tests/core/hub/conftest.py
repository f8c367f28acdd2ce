"""Settings and clients for a hub of our own, in a cache of the test's own."""

from __future__ import annotations

import pytest

from core.hub.client import HubClient
from core.hub.retry import RetryPolicy
from core.hub.settings import HubSettings
from helpers.fake_hub import FakeHub, Repo

REPO = "acme/tiny"
HASTY = RetryPolicy(attempts=3, first_pause_s=0)


@pytest.fixture(autouse=True)
def token_file(monkeypatch, tmp_path):
    """Where the hub's own client keeps the token; not there until a test writes it."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    path = tmp_path / "token"
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(path))
    return path


@pytest.fixture
def files():
    return {"config.json": b'{"model_type": "qwen3"}', "model.safetensors": bytes(range(256)) * 20_000}


@pytest.fixture
def hub(files):
    with FakeHub({REPO: Repo(files)}) as running:
        yield running


@pytest.fixture
def settings(hub, tmp_path):
    return HubSettings(endpoint=hub.url, cache=str(tmp_path / "cache"))


@pytest.fixture
def client(settings):
    """To be entered by the test, in its own loop."""
    return HubClient(settings, stall_s=5, patience=HASTY)
