"""Core ML programs for DFlash drafts, from Rust: the typed names of the native module."""

from ane._native import AneError, cpu_features, tap_scale, version

__all__ = ["AneError", "cpu_features", "tap_scale", "version"]
