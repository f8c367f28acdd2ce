"""Where the hub is, how it is reached, and where models are kept."""

from __future__ import annotations

from pathlib import Path

import msgspec
from huggingface_hub import constants

from core.settings import Settings

PUBLIC_HUB = "https://huggingface.co"
OTHER_ADDRESS = "the hub's address can be changed in the window's settings, or with --endpoint in a terminal"
"""For hints, which window and terminal both show."""
OTHER_FOLDER = "choose another folder of models in the window's settings, or with HF_HUB_CACHE"


class HubSettings(msgspec.Struct, frozen=True):
    """One way to reach a hub. `from_environment` gives what other clients on this machine use."""

    endpoint: str = PUBLIC_HUB
    """The hub or a mirror of it, without a slash at the end."""
    proxy: str = ""
    """URL of a proxy; empty takes that of the environment (HTTPS_PROXY, ALL_PROXY, NO_PROXY, the system's)."""
    offline: bool = False
    """Never send a request."""
    cache: str = constants.HF_HUB_CACHE
    """The folder of models, in the layout of the Hugging Face cache."""

    @property
    def cache_dir(self) -> Path:
        """The folder of models."""
        return Path(self.cache).expanduser()


def hub_settings(settings: Settings, endpoint: str = "", proxy: str = "", *, offline: bool = False) -> HubSettings:
    """What is named, then what the user's settings say, then the environment."""
    return from_environment(
        endpoint or settings.hub_endpoint, proxy or settings.proxy, offline or settings.offline, settings.models_folder
    )


def from_environment(endpoint: str = "", proxy: str = "", offline: bool = False, cache: str = "") -> HubSettings:
    """What is named, and for the rest HF_ENDPOINT, HF_HUB_OFFLINE, HF_HUB_CACHE and HF_HOME as the process began."""
    return HubSettings(
        (endpoint or constants.ENDPOINT).rstrip("/"),
        proxy,
        offline or constants.HF_HUB_OFFLINE,
        cache or constants.HF_HUB_CACHE,
    )
