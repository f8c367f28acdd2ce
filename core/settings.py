"""The user's settings, declared here once; their file: core/settings_file.py.

A settings page is built from `DECLARATIONS`. The hub's token is not among them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec

from core.modes import Mode
from core.pairs.pair import Pair

Theme = Literal["system", "light", "dark"]
SendKey = Literal["enter", "ctrl+enter"]
Group = Literal["Appearance", "Writing", "Answers", "Models", "Speed", "Window"]


def _about(
    group: Group,
    label: str,
    *,
    hint: str = "",
    unit: str = "",
    expert: bool = False,
    choices: dict[str, str] | None = None,
    expected: str = "",
    lines: int = 1,
    least: float | None = None,
    greatest: float | None = None,
    pattern: str | None = None,
) -> msgspec.Meta:
    """What a page shows of a setting, and what its values may be. `expected` names those of a `pattern`."""
    choices = choices or {}
    extra = {"group": group, "unit": unit, "expert": expert, "choices": choices, "expected": expected, "lines": lines}
    limits: dict[str, Any] = {"ge": least, "le": greatest, "pattern": pattern}
    return msgspec.Meta(title=label, description=hint, extra=extra, **limits)


_ADDRESS = r"^(https?://[^\s/]\S*)?\Z"
_PROXY = r"^((https?|socks5h?)://[^\s/]\S*)?\Z"
_FOLDER = r"^([/~][^\0]*)?\Z"
_MODES: dict[str, str] = {
    "auto": "Whatever is fastest, as measured",
    "plain": "Plain decoding",
    "lookup": "Repeats of the conversation, without a draft",
    "gpu": "Draft on the GPU",
    "ane": "Draft on the Neural Engine",
    "mirror": "Draft on the Neural Engine, beside the target",
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. The metadata of a field is what a settings page shows of it."""

    theme: Annotated[
        Theme,
        _about(
            "Appearance", "Colours", choices={"system": "As the system", "light": "Always light", "dark": "Always dark"}
        ),
    ] = "system"
    text_px: Annotated[int, _about("Appearance", "Size of text", unit="pixels", least=9, greatest=40)] = 14
    code_px: Annotated[int, _about("Appearance", "Size of code", unit="pixels", least=9, greatest=40)] = 13
    simple: Annotated[
        bool, _about("Appearance", "Simple window", hint="Hides the settings and figures that only experts need.")
    ] = False
    send_key: Annotated[
        SendKey,
        _about(
            "Writing",
            "Key that sends a message",
            hint="The other one begins a new line.",
            choices={"enter": "Enter", "ctrl+enter": "Ctrl+Enter (Command+Return on a Mac)"},
        ),
    ] = "enter"
    system_prompt: Annotated[
        str, _about("Answers", "System prompt", hint="Told to the model before the first message.", lines=4)
    ] = ""
    temperature: Annotated[
        float,
        _about(
            "Answers",
            "Temperature",
            hint="0 always takes the likeliest word; more gives more varied answers.",
            least=0,
            greatest=2,
        ),
    ] = 0.0
    max_tokens: Annotated[
        int, _about("Answers", "Longest answer", unit="tokens", expert=True, least=1, greatest=1_000_000)
    ] = 1024
    pair: Annotated[
        Pair | None,
        _about("Models", "Pair that is loaded at the start", hint="Where it is gone, the one used last is loaded."),
    ] = None
    """None: the one used last, or the demo pair."""
    mode: Annotated[Mode, _about("Models", "Decoding mode of new chats", choices=_MODES)] = "auto"
    context_limit: Annotated[
        int,
        _about(
            "Models",
            "Longest conversation that the model is shown",
            hint="Longer ones need more memory. 0: as long as the model can. Loads the model again.",
            unit="tokens",
            expert=True,
            least=0,
            greatest=10_000_000,
        ),
    ] = 0
    hub_endpoint: Annotated[
        str,
        _about(
            "Models",
            "Address of the hub",
            hint="Empty: huggingface.co. A mirror of it can stand here.",
            expert=True,
            pattern=_ADDRESS,
            expected="an address that begins with http:// or https://",
        ),
    ] = ""
    proxy: Annotated[
        str,
        _about(
            "Models",
            "Proxy for downloads",
            hint="Empty: as the system says.",
            expert=True,
            pattern=_PROXY,
            expected="an address that begins with http://, https:// or socks5://",
        ),
    ] = ""
    models_folder: Annotated[
        str,
        _about(
            "Models",
            "Folder of downloaded models",
            hint="Empty: the Hugging Face cache, which other programs share.",
            expert=True,
            pattern=_FOLDER,
            expected="a folder's whole path",
        ),
    ] = ""
    offline: Annotated[
        bool,
        _about("Models", "Offline mode", hint="Nothing is asked of the hub; what is on this disk can be used."),
    ] = False
    kernels_folder: Annotated[
        str,
        _about(
            "Models",
            "Folder of prepared kernels",
            hint="Empty: the cache folder of Mirror SD. Loads the model again.",
            expert=True,
            pattern=_FOLDER,
            expected="a folder's whole path",
        ),
    ] = ""
    kernels_limit_gb: Annotated[
        int,
        _about(
            "Models",
            "Room for prepared kernels",
            hint="Beyond it, those used longest ago are removed when a model is loaded. 0: no limit.",
            unit="GB",
            expert=True,
            least=0,
            greatest=10_000,
        ),
    ] = 20
    prefix_cache_mb: Annotated[
        int,
        _about(
            "Speed",
            "Memory for earlier conversations",
            hint="What is held of them is not read again. Never more than a quarter of what is free. 0: nothing.",
            unit="MB",
            expert=True,
            least=0,
            greatest=1_000_000,
        ),
    ] = 1024
    target_threads: Annotated[
        int,
        _about(
            "Speed",
            "Processor threads for the target",
            hint="Used where there is no GPU. 0: chosen by the program. Loads the model again.",
            expert=True,
            least=0,
            greatest=1024,
        ),
    ] = 0
    draft_threads: Annotated[
        int,
        _about(
            "Speed",
            "Processor threads for the draft",
            hint="Used where there is no Neural Engine. 0: chosen by the program. Loads the model again.",
            expert=True,
            least=0,
            greatest=1024,
        ),
    ] = 0
    menu_bar: Annotated[bool, _about("Window", "Show speed and state in the menu bar or tray")] = True
    notify: Annotated[bool, _about("Window", "Notify when a long answer ends in the background")] = True
    ask_before_quitting: Annotated[bool, _about("Window", "Ask before quitting while an answer is written")] = True


# ----------------------------------------------------------- for a settings page


class Declaration(msgspec.Struct, frozen=True):
    """One setting, for a page of settings."""

    name: str
    """The field of `Settings`."""
    kind: Literal["switch", "choice", "whole number", "number", "text", "pair"]
    default: bool | int | float | str | None
    label: str
    group: Group
    hint: str
    unit: str
    expert: bool
    """Hidden in the simple window."""
    choices: tuple[tuple[str, str], ...]
    """Values with their labels, of a choice."""
    least: float | None
    greatest: float | None
    expected: str
    """In words what a value may be."""
    lines: int
    """Of a field for text."""


def _declare(name: str, annotated: Any, default: Any) -> Declaration:
    kind, meta = get_args(annotated)
    extra: dict[str, Any] = meta.extra
    choices = tuple(extra["choices"].items())
    kinds = {bool: "switch", int: "whole number", float: "number", str: "text", Pair | None: "pair"}
    expected = {
        "switch": "true or false",
        "choice": f"one of {', '.join(extra['choices'])}",
        "whole number": f"a whole number from {meta.ge} to {meta.le}",
        "number": f"a number from {meta.ge} to {meta.le}",
        "text": extra["expected"] or "text",
        "pair": "a pair: its name, target and draft",
    }
    word: Any = "choice" if choices else kinds[kind]
    return Declaration(
        name,
        word,
        default,
        meta.title,
        extra["group"],
        meta.description,
        extra["unit"],
        extra["expert"],
        choices,
        meta.ge,
        meta.le,
        expected[word],
        extra["lines"],
    )


_TYPES = get_type_hints(Settings, include_extras=True)
DECLARATIONS: tuple[Declaration, ...] = tuple(
    _declare(name, _TYPES[name], getattr(Settings(), name)) for name in Settings.__struct_fields__
)
"""Every setting, in the order of a page."""


def is_allowed(name: str, value: object) -> bool:
    """Whether `value` can be kept as the setting of that name, and be read again."""
    try:
        msgspec.json.decode(msgspec.json.encode(value), type=_TYPES[name])
    except (msgspec.DecodeError, TypeError, UnicodeEncodeError, OverflowError):
        return False
    return True
