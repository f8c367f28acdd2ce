"""Models in the folders of other programs, each laid out by hand as that program does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.pairs.found import complete, found_models


def model(folder: Path, *, shards: int = 1, missing: int = 0) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    names = [f"model-{i + 1:05d}-of-{shards:05d}.safetensors" for i in range(shards)]
    for name in names[missing:]:
        (folder / name).write_bytes(b"weights")
    if shards > 1:
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {f"t{i}": name for i, name in enumerate(names)}})
        )
    return folder


def in_cache(home: Path, repo: str, commit: str = "a" * 40, ref: str | None = "main") -> Path:
    """As the hub client does it: blobs, links to them, refs."""
    root = home / ".cache/huggingface/hub" / f"models--{repo.replace('/', '--')}"
    snapshot, blobs = root / "snapshots" / commit, root / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    snapshot.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        blob = blobs / f"{commit[:8]}-{name}"
        blob.write_text("{}")
        (snapshot / name).symlink_to(blob)
    if ref:
        (root / "refs").mkdir(exist_ok=True)
        (root / "refs" / ref).write_text(commit)
    return snapshot


def listed(home: Path) -> list[tuple[str, str]]:
    return [(model.program, model.name) for model in found_models(home)]


def test_nothing_is_found_in_an_empty_home(tmp_path):
    assert found_models(tmp_path) == []


def test_the_hub_cache_gives_the_revision_main(tmp_path):
    in_cache(tmp_path, "z-lab/Draft", "b" * 40, ref=None)
    snapshot = in_cache(tmp_path, "z-lab/Draft", "a" * 40)
    in_cache(tmp_path, "mlx-community/Target")
    target, draft = found_models(tmp_path)
    assert (target.name, draft.name) == ("mlx-community/Target", "z-lab/Draft")
    assert (draft.path, draft.revision, draft.program) == (str(snapshot), "a" * 40, "Hugging Face cache")


def test_what_is_not_whole_is_not_found(tmp_path):
    (in_cache(tmp_path, "a/half") / "model.safetensors").unlink()
    model(tmp_path / ".lmstudio/models/b/sharded", shards=3, missing=1)
    (model(tmp_path / ".lmstudio/models/b/no-config") / "config.json").unlink()
    assert found_models(tmp_path) == []
    assert complete(model(tmp_path / "whole", shards=3))


def test_lm_studio_keeps_owner_and_model_and_gguf_files(tmp_path):
    model(tmp_path / ".lmstudio/models/mlx-community/Qwen3-4B-8bit", shards=2)
    gguf = tmp_path / ".lmstudio/models/someone/Smol"
    gguf.mkdir(parents=True)
    (gguf / "smol-q4.gguf").write_bytes(b"GGUF")
    assert listed(tmp_path) == [
        ("LM Studio", "mlx-community/Qwen3-4B-8bit"),
        ("LM Studio", "someone/Smol/smol-q4.gguf"),
    ]


def test_lm_studio_may_live_elsewhere(tmp_path):
    elsewhere, chosen = tmp_path / "disk/lms", tmp_path / "disk/models"
    model(elsewhere / "models/a/one")
    model(chosen / "a/two")
    (elsewhere / "settings.json").write_text(json.dumps({"downloadsFolder": str(chosen)}))
    (tmp_path / ".lmstudio-home-pointer").write_text(f"{elsewhere}\n")
    model(tmp_path / ".cache/lm-studio/models/a/old")
    assert listed(tmp_path) == [("LM Studio", "a/two"), ("LM Studio", "a/one"), ("LM Studio", "a/old")]


def test_omlx_names_its_folders(tmp_path):
    model(tmp_path / ".omlx/models/Flat")
    model(tmp_path / "one/a/x")
    model(tmp_path / "two/a/y")
    settings = {"model": {"model_dirs": [str(tmp_path / "one")], "model_dir": str(tmp_path / "two")}}
    (tmp_path / ".omlx/settings.json").write_text(json.dumps(settings))
    assert listed(tmp_path) == [("oMLX", "a/x"), ("oMLX", "a/y"), ("oMLX", "Flat")]


def test_what_one_program_links_from_another_is_found_once(tmp_path):
    snapshot = in_cache(tmp_path, "a/shared")
    linked = tmp_path / ".omlx/models/a/shared"
    linked.mkdir(parents=True)
    for file in snapshot.iterdir():
        (linked / file.name).symlink_to(file)
    (tmp_path / ".omlx/settings.json").write_text(
        json.dumps({"model": {"model_dirs": [str(tmp_path / ".lmstudio/models")]}})
    )
    model(tmp_path / ".lmstudio/models/a/other")
    assert listed(tmp_path) == [("Hugging Face cache", "a/shared"), ("LM Studio", "a/other")]


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"model": 5}', '{"model": {"model_dirs": 7, "model_dir": [1]}}', "\x00"]
)
def test_damaged_settings_of_others_leave_their_default_folders(tmp_path, content):
    model(tmp_path / ".omlx/models/a/x")
    model(tmp_path / ".lmstudio/models/a/y")
    (tmp_path / ".omlx/settings.json").write_text(content)
    (tmp_path / ".lmstudio/settings.json").write_text(content)
    assert listed(tmp_path) == [("LM Studio", "a/y"), ("oMLX", "a/x")]
