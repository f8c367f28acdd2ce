"""Two hundred hostile messages: nothing is executed, fetched or opened, and no step holds up the window."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject, QUrl, Slot
from PySide6.QtGui import QDesktopServices, QImage, QTextDocument
from PySide6.QtWidgets import QTextBrowser

from app.chat.entry import Entry
from app.chat.transcript import Transcript
from helpers.hostile import hostile_messages

LONGEST_S = 1.5
"""Processor time of any one step of the window's thread: ten times what was measured, for slow machines."""
ROUNDS = 8


class _Server(ThreadingHTTPServer):
    requests: list[str]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        self.send_error(404)


class _Opener(QObject):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    @Slot(QUrl)
    def open(self, url: QUrl) -> None:
        self.opened.append(url.toString())


@pytest.fixture
def server() -> Iterator[_Server]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.requests = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def opener() -> Iterator[_Opener]:
    opener = _Opener()
    for scheme in ("http", "https", "file", "javascript", "data", "smb"):
        QDesktopServices.setUrlHandler(scheme, opener, "open")
    yield opener
    for scheme in ("http", "https", "file", "javascript", "data", "smb"):
        QDesktopServices.unsetUrlHandler(scheme)


@pytest.fixture
def messages(server: _Server, tmp_path: Path) -> list[str]:
    picture = tmp_path / "picture.png"
    image = QImage(64, 64, QImage.Format.Format_RGB32)
    image.fill(0)
    image.save(str(picture))
    return hostile_messages(f"http://127.0.0.1:{server.server_port}", picture)


def timed(step: Callable[[], object]) -> float:
    began = time.thread_time()
    step()
    return time.thread_time() - began


def opened(transcript: Transcript, text: str) -> float:
    """The longest step while a saved chat with this message is opened and painted."""
    entries = [Entry("user", text), Entry("assistant", text, thinking=text[:20_000])]
    return max(
        [timed(lambda: transcript.show(entries)), *(timed(QCoreApplication.processEvents) for _ in range(ROUNDS))]
    )


def streamed(transcript: Transcript, text: str) -> float:
    """The longest step while the message streams in: in a few pieces, then all that is left at once."""
    transcript.clear()
    answer = transcript.begin_answer()
    took = []
    cut = min(len(text), 600)
    for start in range(0, cut, 200):
        answer.append(text[start : min(start + 200, cut)])
        took += [timed(answer.show_frame), timed(QCoreApplication.processEvents)]
    answer.append(text[cut:])
    took.append(timed(lambda: answer.finish("")))
    return max([*took, *(timed(QCoreApplication.processEvents) for _ in range(ROUNDS))])


def foreign_pictures(transcript: Transcript) -> list[str]:
    """Names of pictures in the documents that are no formulas of ours, or have been read from somewhere."""
    found = []
    for view in transcript.findChildren(QTextBrowser):
        for form in view.document().allFormats():
            if form.isImageFormat() and not form.toImageFormat().name().startswith("formula:"):
                found.append(form.toImageFormat().name())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("way", [opened, streamed])
def test_hostile_messages_do_no_harm(
    way: Callable[[Transcript, str], float],
    transcript: Transcript,
    messages: list[str],
    server: _Server,
    opener: _Opener,
) -> None:
    assert len(messages) == 200
    slow = {}
    for number, text in enumerate(messages):
        took_s = way(transcript, text)
        if took_s > LONGEST_S:
            slow[f"{number}: {text[:40]!r}"] = took_s
        assert foreign_pictures(transcript) == []
        transcript.clear()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    assert slow == {}
    assert server.requests == []
    assert opener.opened == []


def test_pictures_of_a_message_are_not_read_even_where_its_document_asks(
    transcript: Transcript, tmp_path: Path
) -> None:
    image = QImage(4, 4, QImage.Format.Format_RGB32)
    image.fill(0)
    path = tmp_path / "a.png"
    assert image.save(str(path))
    transcript.show([Entry("user", "x"), Entry("assistant", f"![a]({path.as_uri()})")])
    for view in transcript.findChildren(QTextBrowser):
        for name in (path.as_uri(), str(path), "qrc:/x.png"):
            found = view.document().resource(QTextDocument.ResourceType.ImageResource.value, QUrl(name))
            assert not found or found.isEmpty()
