"""Core ML programs for DFlash drafts, from Rust: the typed names of the native module."""

from ane._native import version

__all__ = ["version"]
