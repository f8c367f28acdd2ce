"""The user's token for gated and private models: read anew for every attempt, written to no log."""

from __future__ import annotations

import logging
import os
from importlib import import_module
from importlib.util import find_spec

from huggingface_hub import constants, get_token

from core.errors import BadHubSetting

_log = logging.getLogger(__name__)
KEYRING_SERVICE = "mirror-sd"
KEYRING_USER = "hub-token"


def read_token() -> str | None:
    """The token of the environment, the system's keyring (where the package keyring is there) or the hub's own file.

    May wait for the keyring and for the hub (an expiring login is renewed): not for the event loop.
    Raises `BadHubSetting` where the file cannot be read.
    """
    if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
        return None
    named = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN")
    try:
        return (None if named else _from_keyring()) or get_token()
    except (OSError, UnicodeDecodeError) as error:
        raise BadHubSetting(
            "The file with the hub's token cannot be read.",
            f"Log in anew with `hf auth login`: {constants.HF_TOKEN_PATH}",
            type(error).__name__,  # the text may show what the file holds
        ) from None


def _from_keyring() -> str | None:
    if find_spec("keyring") is None:
        return None
    try:
        token: str | None = import_module("keyring").get_password(KEYRING_SERVICE, KEYRING_USER)
    except import_module("keyring.errors").KeyringError as error:
        _log.warning("The system's keyring does not answer: %s", type(error).__name__)
        return None
    return token
