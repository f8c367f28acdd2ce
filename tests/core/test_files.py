"""Files that are there whole or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from core.files import replace_file


def test_threads_may_write_one_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(len(contents)) as threads:
        list(threads.map(lambda content: replace_file(path, content), contents * 10))
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]
