"""Setting and removing the hub's token."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from core.errors import BadRequest, TokenNotSaved
from core.hub.token import read_token
from core.hub.token_store import forget_token, save_token, token_place


@pytest.fixture(autouse=True)
def token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "deep" / "token"
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(path))
    return path


def test_a_token_is_kept_where_downloads_read_it_and_for_the_user_alone(token_file: Path) -> None:
    assert token_place() is None
    assert save_token(" hf_abc\n") == "file" == token_place()
    assert token_file.stat().st_mode & 0o777 == 0o600
    assert read_token() == "hf_abc"
    save_token("hf_other")
    assert read_token() == "hf_other"
    assert [path.name for path in token_file.parent.iterdir()] == ["token"]
    forget_token()
    forget_token()
    assert token_place() is None


def test_the_environment_s_token_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abc")
    assert token_place() == "environment"


@pytest.mark.parametrize("text", ["", "  ", "two words", "hf_ä", "hf_a\nb", "hf_\0"])
def test_what_cannot_be_a_token_is_refused_and_the_old_one_stays(text: str) -> None:
    save_token("hf_abc")
    with pytest.raises(BadRequest):
        save_token(text)
    assert read_token() == "hf_abc"


def test_a_disk_that_refuses_is_told_without_the_token(token_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token_file.parent.write_text("a file in the way")
    with pytest.raises(TokenNotSaved) as refused:
        save_token("hf_abc")
    assert "hf_abc" not in repr(refused.value.problem)
    assert "hf_abc" not in caplog.text
