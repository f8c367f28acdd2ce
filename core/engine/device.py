"""Which kind of device MLX works on, and what follows for queueing."""

from __future__ import annotations

import mlx.core as mx


def on_cpu() -> bool:
    """Whether MLX's default device is the CPU.

    There `mx.async_eval` returns only when all but about ten operations of the graph are done (measured: four fifths
    of a pass), so work queued behind a pass delays the news of that pass. On a GPU it returns at once.
    """
    return bool(mx.default_device() == mx.Device(mx.cpu))


def reset_peak_memory() -> None:
    """Let `peak_memory_bytes` begin anew."""
    mx.reset_peak_memory()


def peak_memory_bytes() -> int:
    """The most that MLX's arrays took at once."""
    return int(mx.get_peak_memory())


def wait_for_device() -> None:
    """Wait for all work of this thread that was handed to the device."""
    mx.synchronize()
