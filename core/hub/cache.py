"""The folders of the Hugging Face cache, which other programs share."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import constants


def repo_dir(cache: Path, repo: str) -> Path:
    """The folder of a model."""
    return cache / constants.REPO_ID_SEPARATOR.join(["models", *repo.split("/")])


def snapshot_dir(cache: Path, repo: str, commit: str) -> Path:
    """The folder of a model's files at a commit."""
    return repo_dir(cache, repo) / "snapshots" / commit


def snapshot_file(cache: Path, repo: str, commit: str, name: str) -> Path:
    """A model's file at a commit; most are links to a blob."""
    return snapshot_dir(cache, repo, commit).joinpath(*name.split("/"))
