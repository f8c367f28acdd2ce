"""The user's token for gated and private models: read anew for every attempt, written to no log."""

from __future__ import annotations

import importlib
import os
from importlib.util import find_spec

from huggingface_hub import constants, get_token

KEYRING_SERVICE = "mirror-sd"
KEYRING_USER = "hub-token"


def read_token() -> str | None:
    """The token of the environment, the system's keyring (where the package keyring is there) or the hub's own file.

    May wait for the keyring and for the hub (an expiring login is renewed): not for the event loop.
    """
    if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
        return None
    named = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN")
    return (None if named else _from_keyring()) or get_token()


def _from_keyring() -> str | None:
    if find_spec("keyring") is None:
        return None
    token: str | None = importlib.import_module("keyring").get_password(KEYRING_SERVICE, KEYRING_USER)
    return token
