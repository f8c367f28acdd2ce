"""Prepared kernels on disk: made once, found again, and whole whatever happens to whoever makes them."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ane
from helpers import kernels_child
from helpers.random_drafts import small_draft

STAGES = ["quantise", "build", "write"]
PROGRAMS = ["ingest_r32", "ingest_r256", "layer0", "layer1"]
FIRST_OF_LAST_LAYER = 1 + 3 * 3  # progress calls: the hash, then three for each program


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    return small_draft(tmp_path / "draft")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def compile_small(draft: Path, cache: Path, **options: Any) -> ane.Kernels:
    return ane.compile_kernels(draft, cache, **{"width": 16, "context": 512, **options})


def left_in(cache: Path) -> list[str]:
    """Everything in the cache, hidden or not, but what it knows of files."""
    return sorted(set(os.listdir(cache)) - {"hashes.json"})


def child(draft: Path, cache: Path, stop: int) -> subprocess.Popen[str]:
    command = [sys.executable, kernels_child.__file__, str(draft), str(cache), str(stop)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def outputs(program: ane.Program) -> dict[str, bytes]:
    """What a program makes of fixed inputs."""
    drawn = np.random.default_rng(5)
    inputs = {name: drawn.standard_normal(shape).astype(np.float16) for name, shape in program.inputs.items()}
    made = {name: np.zeros(shape, np.float16) for name, shape in program.outputs.items()}
    program.run(inputs, made)
    return {name: array.tobytes() for name, array in made.items()}


def test_kernels_are_made_once_and_found_again(draft: Path, cache: Path) -> None:
    told: list[tuple[str, str, int, int, float]] = []
    made = compile_small(draft, cache, progress=lambda *event: told.append(event))
    steps = [("hash", ""), *((stage, program) for program in PROGRAMS for stage in STAGES), ("seal", ""), ("done", "")]
    assert list(dict.fromkeys((stage, program) for stage, program, *_ in told)) == steps
    assert told[0][2:4] == (0, 13)
    assert told[-1][2:4] == (13, 13)
    assert [event[4] for event in told] == sorted(event[4] for event in told)
    assert (made.hit, made.replaced, made.precision, made.width, made.context) == (False, None, "w8a16", 16, 512)
    assert made.programs == [*PROGRAMS[:2], "layer0_w16_c512", "layer1_w16_c512"]
    assert made.path == cache / made.key
    assert made.draft == draft
    assert made.seconds.keys() == {"hash", "seal", *STAGES}

    found = compile_small(draft, cache)
    assert found.hit
    assert (found.key, found.bytes, found.relative_errors) == (made.key, made.bytes, made.relative_errors)
    assert found.created_s == made.created_s <= found.last_used_s
    (listed,) = ane.list_kernels(cache)
    assert listed.key == made.key
    assert compile_small(draft, cache, precision="fp16").key != made.key
    assert ane.remove_kernels(cache, [made.key]) == made.bytes
    assert [kernels.precision for kernels in ane.list_kernels(cache) if isinstance(kernels, ane.Kernels)] == ["fp16"]
    ane.remove_kernels(cache)
    assert os.listdir(cache) == []


def test_their_report_is_that_of_a_build(draft: Path, cache: Path, tmp_path: Path) -> None:
    report = ane.build_packages(draft, tmp_path / "out", width=16, context=512)
    kernels = compile_small(draft, cache)
    assert kernels.relative_errors == pytest.approx(report.relative_errors, rel=1e-12)
    assert (kernels.kept_fp16, kernels.factors) == (report.kept_fp16, report.factors)
    for package in report.packages:
        for path in (path for path in package.path.rglob("*") if path.is_file()):
            assert (kernels.path / path.relative_to(tmp_path / "out")).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("precision", ["w8a16", "fp16"])
def test_loaded_kernels_give_the_bits_of_the_draft(draft: Path, cache: Path, precision: Any) -> None:
    runtime = ane.CpuRuntime()
    loaded = ane.load_kernels(compile_small(draft, cache, precision=precision), runtime)
    direct = runtime.load(draft, precision=precision, width=16, context=512)
    assert [program.name for program in loaded] == [program.name for program in direct]
    for ours, theirs in zip(loaded, direct, strict=True):
        assert outputs(ours) == outputs(theirs)


@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML decides there")
def test_programs_and_drafts_say_where_they_run(draft: Path, cache: Path) -> None:
    assert ane.system_runtime() == "cpu"
    kernels = compile_small(draft, cache)
    loaded = ane.load_kernels(kernels, ane.CpuRuntime())
    placed = [program.placement() for program in loaded]
    assert [placement.program for placement in placed] == kernels.programs
    for one, planned, of_draft in zip(
        placed, ane.place_kernels(kernels), ane.Draft(draft, loaded).placement(), strict=True
    ):
        assert one.operations > 20
        assert (one.neural_engine, one.gpu, one.cpu) == (0, 0, 1)
        for other in (planned, of_draft):
            assert (other.program, other.operations, other.cpu) == (one.program, one.operations, 1)


def test_every_damaged_byte_is_found_when_kernels_are_loaded(draft: Path, cache: Path) -> None:
    kernels = compile_small(draft, cache)
    drawn = random.Random(1)
    files = sorted(path for path in kernels.path.rglob("*") if path.is_file() and path.name != "manifest.json")
    for file in files:
        whole = file.read_bytes()
        damaged = bytearray(whole)
        damaged[drawn.randrange(len(damaged))] ^= 1 << drawn.randrange(8)
        file.write_bytes(damaged)
        with pytest.raises(ane.CorruptKernels) as raised:
            ane.load_kernels(kernels, ane.CpuRuntime())
        sentence = str(raised.value)
        assert sentence.startswith(f"The prepared kernels are damaged: {file}: ")
        assert sentence.endswith(".")
        assert left_in(cache) == []
        again = compile_small(draft, cache)
        assert not again.hit
        assert file.read_bytes() == whole


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"format": 9}', None])
def test_a_manifest_that_is_none_is_listed_and_replaced(draft: Path, cache: Path, text: bytes | None) -> None:
    kernels = compile_small(draft, cache)
    manifest = kernels.path / "manifest.json"
    manifest.unlink() if text is None else manifest.write_bytes(text)
    (listed,) = ane.list_kernels(cache)
    assert isinstance(listed, ane.DamagedKernels)
    assert (listed.key, listed.path) == (kernels.key, kernels.path)
    assert str(manifest) in listed.problem
    again = compile_small(draft, cache)
    assert not again.hit
    assert again.replaced
    assert str(manifest) in again.replaced


def test_any_damaged_bit_of_a_manifest_is_harmless_or_found(draft: Path, cache: Path) -> None:
    kernels = compile_small(draft, cache)
    manifest = kernels.path / "manifest.json"
    whole = manifest.read_bytes()
    drawn = random.Random(2)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[drawn.randrange(len(damaged))] ^= 1 << drawn.randrange(8)
        manifest.write_bytes(damaged)
        (listed,) = ane.list_kernels(cache)
        if isinstance(listed, ane.DamagedKernels):
            assert str(kernels.path) in listed.problem
            assert "\n" not in listed.problem
        else:
            assert (listed.key, listed.width, listed.context) == (kernels.key, 16, 512)


def test_kernels_of_another_process_are_waited_for_and_hit(draft: Path, cache: Path) -> None:
    maker = child(draft, cache, FIRST_OF_LAST_LAYER)
    assert maker.stdout is not None
    assert maker.stdout.readline() == f"at {FIRST_OF_LAST_LAYER}\n"
    waited = threading.Event()
    made: list[ane.Kernels] = []

    def progress(stage: str, *_: object) -> None:
        if stage == "wait":
            waited.set()

    waiter = threading.Thread(target=lambda: made.append(compile_small(draft, cache, progress=progress)))
    waiter.start()
    assert waited.wait(60)
    assert made == []
    assert ane.list_kernels(cache) == []
    maker.kill()  # the lock goes with its holder
    maker.communicate()
    waiter.join(60)
    assert not made[0].hit
    assert left_in(cache) == [made[0].key]


def test_of_several_processes_one_makes_the_kernels(draft: Path, cache: Path) -> None:
    children = [child(draft, cache, -1) for _ in range(4)]
    keys = {process.communicate(timeout=120)[0] for process in children}
    (kernels,) = ane.list_kernels(cache)
    assert keys == {f"{kernels.key}\n"}
    assert left_in(cache) == [kernels.key]
    assert compile_small(draft, cache).hit


@pytest.mark.parametrize("stop", range(0, 15, 2))
def test_a_process_killed_anywhere_leaves_nothing_that_counts(draft: Path, cache: Path, stop: int) -> None:
    process = child(draft, cache, stop)
    assert process.stdout is not None
    assert process.stdout.readline() == f"at {stop}\n"
    process.kill()
    process.communicate()
    assert ane.list_kernels(cache) == []
    kernels = compile_small(draft, cache)
    assert not kernels.hit
    assert kernels.replaced is None
    assert left_in(cache) == [kernels.key]
    ane.load_kernels(kernels, ane.CpuRuntime())


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_progress_raises_stops_the_work_and_leaves_nothing(
    draft: Path, cache: Path, error: type[BaseException]
) -> None:
    for stop in range(15):
        told = 0

        def progress(*_: object) -> None:
            nonlocal told
            if told == stop:  # noqa: B023  called in this round only
                raise error
            told += 1

        with pytest.raises(error):
            compile_small(draft, cache, progress=progress)
        assert left_in(cache) == []


def test_ctrl_c_stops_a_wait_without_a_callback(draft: Path, cache: Path) -> None:
    maker = child(draft, cache, FIRST_OF_LAST_LAYER)
    assert maker.stdout is not None
    maker.stdout.readline()
    code = (
        "import _thread, signal, sys, threading, ane\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job starts with it ignored
        "main = sys._getframe()\n"
        "def interrupt():\n"
        "    while main.f_lineno != 10: pass\n"
        "    _thread.interrupt_main()\n"
        "threading.Thread(target=interrupt).start()\n"
        "try:\n"
        "    print('waiting')\n"
        "    ane.compile_kernels(*sys.argv[1:], width=16, context=512)\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped')\n"
    )
    command = [sys.executable, "-c", code, draft, cache]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    finally:
        maker.kill()
        maker.communicate()
    assert (run.stdout, run.stderr) == ("waiting\nstopped\n", "")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("mounting a small file system takes root")
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path, small_disk: Path) -> None:
    draft = small_draft(tmp_path / "draft", intermediate_size=1024)
    cache = small_disk / "cache"
    with pytest.raises(ane.WriteFailed, match=r"cannot be written to .*cache: No space left on device"):
        compile_small(draft, cache)
    assert left_in(cache) == []
    compile_small(small_draft(tmp_path / "smaller"), cache)


def test_the_same_draft_elsewhere_has_the_same_kernels(draft: Path, cache: Path, tmp_path: Path) -> None:
    key = compile_small(draft, cache).key
    moved = shutil.copytree(draft, tmp_path / "copy")
    assert compile_small(moved, cache).hit
    config = moved / "config.json"
    config.write_text(config.read_text().replace("1e-05", "1e-06"))
    assert compile_small(moved, cache).key != key


def test_a_draft_that_changes_meanwhile_has_no_kernels(draft: Path, cache: Path) -> None:
    def progress(stage: str, *_: object) -> None:
        if stage == "build":
            os.utime(draft / "model.safetensors")

    with pytest.raises(ane.InvalidDraft, match="it changed while it was read"):
        compile_small(draft, cache, progress=progress)
    assert left_in(cache) == []


def test_what_cannot_be_is_said(draft: Path, cache: Path) -> None:
    with pytest.raises(ane.InvalidDraft):
        compile_small(draft / "nowhere", cache)
    with pytest.raises(ane.AneError, match="48 is no width"):
        compile_small(draft, cache, width=48)
    assert not cache.exists()
    assert ane.list_kernels(cache) == []
    for key in ("0123456789abcdef", "../draft", ""):
        with pytest.raises(ane.AneError, match="There are no kernels"):
            ane.remove_kernels(cache, [key])
    with pytest.raises(ane.WriteFailed, match=r"cannot be written to .*config\.json: not a directory"):
        compile_small(draft, draft / "config.json")
