"""Setting and removing the hub's token; core/hub/token.py reads it."""

from __future__ import annotations

import logging
import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from huggingface_hub import constants

from core.errors import BadRequest, TokenNotSaved
from core.files import replace_file
from core.hub.token import KEYRING_SERVICE, KEYRING_USER

_log = logging.getLogger(__name__)

TokenPlace = Literal["environment", "keyring", "file"]


def token_place() -> TokenPlace | None:
    """Where a token is; None without one. May wait for the keyring. Does not ask the hub whether the token is good."""
    if os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN"):
        return "environment"
    if _keyring_has_token():
        return "keyring"
    return "file" if _file().is_file() else None


def save_token(token: str) -> TokenPlace:
    """Keep the token: in the system's keyring where the package keyring is there, else in the hub's own file.

    Raises `BadRequest` for what cannot be one, and `TokenNotSaved`.
    """
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadRequest("This is no token of the hub.", "Copy it anew from the hub's page of access tokens.")
    if find_spec("keyring") is not None:
        try:
            import_module("keyring").set_password(KEYRING_SERVICE, KEYRING_USER, token)
            return "keyring"
        except import_module("keyring.errors").KeyringError as error:
            _log.warning("The system's keyring does not answer: %s", type(error).__name__)
    _write(_file(), token)
    return "file"


def forget_token() -> None:
    """Remove it from the keyring and from the hub's own file, for other programs as well. Raises `TokenNotSaved`."""
    if _keyring_has_token():
        import_module("keyring").delete_password(KEYRING_SERVICE, KEYRING_USER)
    try:
        _file().unlink(missing_ok=True)
    except OSError as error:
        raise _not_saved("The hub's token could not be removed.", error) from None


def _file() -> Path:
    return Path(constants.HF_TOKEN_PATH)


def _keyring_has_token() -> bool:
    if find_spec("keyring") is None:
        return False
    try:
        return bool(import_module("keyring").get_password(KEYRING_SERVICE, KEYRING_USER))
    except import_module("keyring.errors").KeyringError as error:
        _log.warning("The system's keyring does not answer: %s", type(error).__name__)
        return False


def _write(path: Path, token: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, token.encode("ascii"), private=True)
    except OSError as error:
        raise _not_saved("The hub's token could not be kept.", error) from None


def _not_saved(sentence: str, error: OSError) -> TokenNotSaved:
    return TokenNotSaved(sentence, f"See that you may write to {_file()}.", f"{type(error).__name__} {error.errno}")
