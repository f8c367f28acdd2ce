"""What the commands about models on the hub share. They import `core.hub` late: its HTTP client is slow to load."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from core.cli.common import print_problem
from core.paths import settings_file
from core.settings import Settings
from core.settings_file import SettingsFile

if TYPE_CHECKING:
    from core.hub.settings import HubSettings


def add_hub_options(parser: argparse.ArgumentParser) -> None:
    """How the hub is reached; without them as the window's settings and the environment say."""
    parser.add_argument("--endpoint", default="", metavar="URL", help="the hub or a mirror of it (HF_ENDPOINT)")
    parser.add_argument("--proxy", default="", metavar="URL", help="a proxy (HTTPS_PROXY)")
    parser.add_argument("--offline", action="store_true", help="send no request (HF_HUB_OFFLINE)")


def user_settings() -> Settings:
    """The window's settings; what is wrong with their file is told."""
    file = SettingsFile(settings_file())
    for problem in file.load():
        print_problem(problem)
    return file.settings


def hub_settings(arguments: argparse.Namespace | None = None, known: Settings | None = None) -> HubSettings:
    """What the options name, then the window's settings (`known` where they were read), then the environment."""
    from core.hub import settings

    known = known or user_settings()
    if arguments is None:
        return settings.hub_settings(known)
    return settings.hub_settings(known, arguments.endpoint, arguments.proxy, offline=arguments.offline)


def confirmed(question: str, yes: bool) -> bool:
    """Whether the user agrees; never where nobody can be asked."""
    if yes or not sys.stdin.isatty():
        return yes
    return input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}
