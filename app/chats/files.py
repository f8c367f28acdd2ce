"""Chats to files and back, and text files into messages: the dialogs, and reading and writing off the GUI thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from app.chats.controller import Chats
from app.language import tr, trn
from app.tasks import Tasks
from core.chats import ChatStore
from core.chats.attach import TextFile, read_text_file
from core.chats.markdown import import_markdown
from core.chats.transfer import export_json, export_markdown, import_json
from core.errors import MirrorError, Problem, UnreadableImport
from core.files import replace_file

_JSON, _MARKDOWN = tr("Mirror SD chats (*.json)"), tr("Markdown (*.md)")
_MOST_NAME = 80
_MOST_BYTES = 1_000_000_000
_PAGE = 500


class ChatFiles(QObject):
    """Asks for files and reads or writes them."""

    failed = Signal(object)
    """`Problem`."""
    told = Signal(str)
    """A sentence on what was done."""
    attached = Signal(object)
    """`TextFile`."""

    def __init__(self, chats: Chats, window: QWidget) -> None:
        super().__init__(window)
        self._chats = chats
        self._window = window
        self._tasks = Tasks()

    # ------------------------------------------------------------------ dialogs

    def ask_export(self, chat_id: int | None = None) -> None:
        """Ask where to write a chat, the open one if none is named."""
        chat_id = self._chats.current.chat_id if chat_id is None else chat_id
        if chat_id is None:
            return
        dialog = self._dialog(tr("Export chat"), QFileDialog.AcceptMode.AcceptSave, _MARKDOWN, _JSON)
        dialog.selectFile(file_name(self._title_of(chat_id)))
        dialog.setDefaultSuffix("md")
        dialog.filterSelected.connect(lambda chosen: dialog.setDefaultSuffix("json" if chosen == _JSON else "md"))
        dialog.fileSelected.connect(lambda path: self.export(Path(path), chat_id))
        dialog.open()

    def ask_export_all(self) -> None:
        """Ask where to write all chats."""
        dialog = self._dialog(tr("Export all chats"), QFileDialog.AcceptMode.AcceptSave, _JSON)
        dialog.selectFile(tr("Mirror SD chats") + ".json")
        dialog.setDefaultSuffix("json")
        dialog.fileSelected.connect(lambda path: self.export(Path(path), None))
        dialog.open()

    def ask_import(self) -> None:
        """Ask for files with chats."""
        dialog = self._dialog(
            tr("Import chats"),
            QFileDialog.AcceptMode.AcceptOpen,
            tr("Chats (*.json *.md *.markdown)"),
            tr("All files (*)"),
        )
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.filesSelected.connect(lambda paths: self.import_files([Path(path) for path in paths]))
        dialog.open()

    def ask_attach(self) -> None:
        """Ask for text files to attach."""
        dialog = self._dialog(tr("Attach text files"), QFileDialog.AcceptMode.AcceptOpen, tr("All files (*)"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.filesSelected.connect(lambda paths: self.attach([Path(path) for path in paths]))
        dialog.open()

    # --------------------------------------------------------------------- work

    def export(self, path: Path, chat_id: int | None) -> None:
        """Write a chat (None: all), as Markdown where the file's name says so, else as JSON."""
        self._tasks.start(self._export(path, chat_id))

    def import_files(self, paths: Sequence[Path]) -> None:
        """Add the chats of files to the list, and open the last of them."""
        self._tasks.start(self._import(tuple(paths)))

    def attach(self, paths: Sequence[Path]) -> None:
        """Read text files for a message; `attached` tells of each."""
        self._tasks.start(self._attach(tuple(paths)))

    async def close(self) -> None:
        """Wait for what is under way."""
        await self._tasks.wait_all()

    async def _export(self, path: Path, chat_id: int | None) -> None:
        def read(store: ChatStore) -> bytes:
            if chat_id is not None and path.suffix.lower() in (".md", ".markdown"):
                return export_markdown(store, chat_id).encode()
            return export_json(store, _all_ids(store) if chat_id is None else [chat_id])

        try:
            data = await self._chats.keeper.call(read)
            await asyncio.to_thread(replace_file, path, data)
        except MirrorError as error:
            self.failed.emit(error.problem)
        except OSError as error:
            sentence = tr("“{file}” could not be written.").format(file=path.name)
            hint = tr("See that the disk has room and that you may write to {folder}.").format(folder=path.parent)
            self.failed.emit(Problem("ExportNotWritten", sentence, hint, str(error)))
        else:
            self.told.emit(tr("Exported to {file}.").format(file=path.name))

    async def _import(self, paths: Sequence[Path]) -> None:
        added: list[int] = []
        for path in paths:
            try:
                data = await asyncio.to_thread(_read, path)
                added += await self._chats.keeper.call(partial(_import_into, path=path, data=data))
            except MirrorError as error:
                self.failed.emit(error.problem)
        if added:
            self._chats.list_changed.emit()
            self._chats.open(added[-1])
            told = trn("Imported {chats} chat.", "Imported {chats} chats.", len(added))
            self.told.emit(told.format(chats=len(added)))

    async def _attach(self, paths: Sequence[Path]) -> None:
        for path in paths:
            try:
                file: TextFile = await asyncio.to_thread(read_text_file, path)
            except MirrorError as error:
                self.failed.emit(error.problem)
            else:
                self.attached.emit(file)

    def _title_of(self, chat_id: int) -> str:
        chat = self._chats.current.chat
        return chat.title if chat is not None and chat.id == chat_id else tr("Chat")

    def _dialog(self, title: str, mode: QFileDialog.AcceptMode, *filters: str) -> QFileDialog:
        dialog = QFileDialog(self._window, title)
        dialog.setAcceptMode(mode)
        dialog.setNameFilters(filters)
        dialog.finished.connect(dialog.deleteLater)
        return dialog


def file_name(title: str) -> str:
    """A file's name from a chat's title."""
    name = " ".join(re.sub(r'[\x00-\x1f/\\:*?"<>|]', " ", title).split()).strip(". ")
    return (name[:_MOST_NAME] or tr("Chat")) + ".md"


def _all_ids(store: ChatStore) -> list[int]:
    """Oldest first, so that an import gives the newest chat the highest number."""
    ids: list[int] = []
    page = store.page(_PAGE)
    while page:
        ids += [chat.id for chat in page]
        page = store.page(_PAGE, page[-1])
    return ids[::-1]


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():  # reading a pipe might wait for ever
            raise UnreadableImport(
                tr("“{file}” is not a file.").format(file=path.name), tr("Import single files."), str(path)
            )
        if path.stat().st_size > _MOST_BYTES:
            raise UnreadableImport(tr("“{file}” is too long.").format(file=path.name), detail=str(path))
        return path.read_bytes()
    except OSError as error:
        raise UnreadableImport(tr("“{file}” cannot be read.").format(file=path.name), detail=str(error)) from error


def _import_into(store: ChatStore, path: Path, data: bytes) -> tuple[int, ...]:
    if path.suffix.lower() in (".md", ".markdown"):
        return (import_markdown(store, data),)
    return import_json(store, data)
