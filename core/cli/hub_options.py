"""What the commands about models on the hub share. They import `core.hub` late: its HTTP client is slow to load."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.hub.settings import HubSettings


def add_hub_options(parser: argparse.ArgumentParser) -> None:
    """How the hub is reached; without them as the environment says."""
    parser.add_argument("--endpoint", default="", metavar="URL", help="the hub or a mirror of it (HF_ENDPOINT)")
    parser.add_argument("--proxy", default="", metavar="URL", help="a proxy (HTTPS_PROXY)")
    parser.add_argument("--offline", action="store_true", help="send no request (HF_HUB_OFFLINE)")


def hub_settings(arguments: argparse.Namespace) -> HubSettings:
    """The settings that the options name."""
    from core.hub.settings import from_environment

    return from_environment(arguments.endpoint, arguments.proxy, arguments.offline)


def confirmed(question: str, yes: bool) -> bool:
    """Whether the user agrees; never where nobody can be asked."""
    if yes or not sys.stdin.isatty():
        return yes
    return input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}
