"""Core ML programs for DFlash drafts, from Rust: the typed names of the native module."""

from ane._native import (
    AneError,
    BuildReport,
    CpuRuntime,
    Draft,
    DraftInfo,
    InvalidDraft,
    Package,
    Program,
    WriteFailed,
    build_packages,
    cpu_features,
    inspect_draft,
    tap_scale,
    version,
)

__all__ = [
    "AneError",
    "BuildReport",
    "CpuRuntime",
    "Draft",
    "DraftInfo",
    "InvalidDraft",
    "Package",
    "Program",
    "WriteFailed",
    "build_packages",
    "cpu_features",
    "inspect_draft",
    "tap_scale",
    "version",
]
