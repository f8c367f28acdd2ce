"""`mirror-sd doctor`: what this machine has, each with a verdict and a hint."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import psutil

from core import __version__
from core.cli.common import engine
from core.errors import MirrorError
from core.machine import chip_name
from core.pairs import demo_pair
from core.paths import cache_dir, state_dir
from core.protocol import Hello

Verdict = Literal["ok", "note", "bad"]
_MARKS: dict[Verdict, str] = {"ok": "ok  ", "note": "note", "bad": "BAD "}
_LEAST_MEMORY_GB = 4


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    verdict: Verdict
    what: str
    found: str
    hint: str = ""


def add_command(commands: Any) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = commands.add_parser("doctor", help="check this machine, with hints")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001
    """Print the report; the exit code is 1 where something is bad."""
    findings = asyncio.run(examine())
    for finding in findings:
        print(f"{_MARKS[finding.verdict]}  {finding.what:14} {finding.found}")
        if finding.hint:
            print(f"{'':21}{finding.hint}")
    return int(any(finding.verdict == "bad" for finding in findings))


async def examine() -> list[Finding]:
    """Look at everything. What MLX says comes from a worker, like everything of MLX."""
    findings = [*_machine()]
    try:
        async with engine() as client:
            findings += _engine(await client.start())
    except MirrorError as error:
        findings.append(Finding("bad", "engine", error.problem.sentence, error.problem.detail))
    return [*findings, *_compiler(), *_demo(), *_folders()]


def _machine() -> Iterator[Finding]:
    yield Finding("ok", "Mirror SD", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    yield Finding("ok", "chip", f"{chip_name()}, {os.cpu_count()} cores")
    memory = psutil.virtual_memory()
    total_gb, free_gb = memory.total / 1e9, memory.available / 1e9
    enough = total_gb >= _LEAST_MEMORY_GB
    hint = "" if enough else f"The demo pair needs about 2 GB free; {_LEAST_MEMORY_GB} GB in all are comfortable."
    yield Finding("ok" if enough else "note", "memory", f"{total_gb:.1f} GB, {free_gb:.1f} GB available", hint)


def _engine(hello: Hello) -> Iterator[Finding]:
    on_cpu = hello.device == "cpu"
    yield Finding(
        "ok",
        "MLX",
        f"{hello.mlx_version} on {hello.device}",
        "No Apple GPU here: everything works, at a CPU's speed." if on_cpu else "",
    )
    blas = hello.blas
    sound: Verdict = "ok" if blas.verdict in ("checked", "not needed") else "note"
    library = " ".join(filter(None, [blas.library, blas.path, f"({blas.verdict})"]))
    yield Finding(sound, "BLAS", library, blas.hint)
    if blas.own_kernels:
        yield Finding("ok", "own kernels", blas.own_kernels)
    features = ", ".join(hello.ane_cpu_features) or "no vector features"
    yield Finding("ok", "ane", f"{hello.ane_version}, CPU: {features}")


def _compiler() -> Iterator[Finding]:
    """MLX's CPU back end compiles its fused kernels when they are first used."""
    if sys.platform != "linux":
        return
    path = shutil.which("g++")
    if path is None:
        yield Finding("bad", "g++", "not found", "MLX compiles CPU kernels with it. Install it (Debian: g++).")
        return
    version = subprocess.run([path, "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    yield Finding("ok", "g++", f"{version} ({path})")


def _demo() -> Iterator[Finding]:
    try:
        pair = demo_pair()
    except MirrorError as error:
        yield Finding("note", "demo pair", error.problem.sentence, error.problem.hint)
    else:
        yield Finding("ok", "demo pair", pair.name)


def _folders() -> Iterator[Finding]:
    for what, folder in (("cache folder", cache_dir()), ("state folder", state_dir())):
        size_mb = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
        free_gb = shutil.disk_usage(folder).free / 1e9
        if os.access(folder, os.W_OK):
            yield Finding("ok", what, f"{folder}, {size_mb:.1f} MB used, {free_gb:.0f} GB free")
        else:
            yield Finding("bad", what, f"{folder} cannot be written", "Make it writable, or set MIRROR_SD_HOME.")
