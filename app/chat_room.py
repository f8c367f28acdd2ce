"""The middle of the window: the open chat's transcript, what went wrong, and the composer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from PySide6.QtCore import QEvent, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.chat.composer import Composer
from app.chat.find import FindBar
from app.chat.transcript import Transcript
from app.chats.controller import Chats
from app.chats.files import ChatFiles
from app.chats.known_pairs import known_pair
from app.chats.options_dialog import OptionsDialog
from app.chats.session import Session, ending_of, entry_of, shown_text
from app.engine import PairState, PairStatus
from app.generation import Generation, State
from app.language import tr
from app.notice import ProblemNotice
from app.theme import COLUMN_WIDTH, GAP, scaled
from app.widgets import label, push_button
from core.chats import ChatOptions, Message
from core.chats.attach import TextFile
from core.errors import Problem
from core.pairs import Pair
from core.protocol import Prefill, Step

_TOLD_MS = 6000


class ChatRoom(QWidget):
    """Shows the open chat of `Chats` and passes on what the user does with it."""

    pair_wanted = Signal(object)
    """`Pair` that this chat used, and that is not the loaded one."""

    def __init__(
        self, chats: Chats, generation: Generation, files: ChatFiles, status: Callable[[], PairStatus]
    ) -> None:
        """`status`: of the pair."""
        super().__init__()
        self._chats = chats
        self._generation = generation
        self._files = files
        self._status = status
        self._session: Session | None = None
        self._edited_id: int | None = None
        self._other_pair: Pair | None = None
        self.transcript = Transcript()
        self.find_bar = FindBar(self.transcript)
        self.notice = ProblemNotice()
        self.composer = Composer()
        self.told = label("", "muted")
        self.told.hide()
        self.load_pair = push_button(tr("Load the pair of this chat"), tr("Load the pair that this chat used"))
        self.load_pair.clicked.connect(lambda: self.pair_wanted.emit(self._other_pair))
        self.load_pair.hide()
        self._told_timer = QTimer(self)
        self._told_timer.setSingleShot(True)
        self._told_timer.setInterval(_TOLD_MS)
        self._told_timer.timeout.connect(self.told.hide)
        self._lay_out()
        self._connect_chats()
        self._connect_controls()
        self._on_opened()

    def _lay_out(self) -> None:
        lower = QWidget()
        in_lower = QVBoxLayout(lower)
        in_lower.setContentsMargins(0, 0, 0, 0)
        in_lower.setSpacing(GAP)
        for widget in (self.notice, self.told, self.load_pair, self.composer):
            in_lower.addWidget(widget)
        self._lower = lower
        centred = QHBoxLayout()
        centred.setContentsMargins(16, 0, 16, 16)
        centred.addStretch(1)
        centred.addWidget(lower, 1000)
        centred.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(GAP)
        layout.addWidget(self.transcript, 1)
        layout.addLayout(centred)
        self._place_lower()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Text may have another size."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._place_lower()

    def _place_lower(self) -> None:
        self._lower.setMaximumWidth(scaled(COLUMN_WIDTH) + 40)

    def _connect_chats(self) -> None:
        chats, generation = self._chats, self._generation
        chats.opened.connect(self._on_opened)
        chats.found.connect(lambda found: self.find_bar.show_found(found.message_id, found.words))
        chats.asked.connect(self._on_asked)
        chats.answered.connect(self._on_answered)
        chats.state_changed.connect(self._on_state)
        chats.refused.connect(self._show_draft)
        chats.failed.connect(self.show_problem)
        generation.state_changed.connect(self._on_state)
        generation.prefilled.connect(self._on_prefill)
        generation.stepped.connect(self._on_step)
        generation.text_added.connect(self._on_text)
        generation.thinking_added.connect(self._on_thinking)

    def _connect_controls(self) -> None:
        chats, composer, bars = self._chats, self.composer, self.transcript.bars
        composer.submitted.connect(self._send)
        composer.stop_requested.connect(chats.stop)
        composer.text_changed.connect(self._on_typed)
        composer.files_changed.connect(self._on_files)
        composer.attach_requested.connect(self._files.ask_attach)
        composer.files_dropped.connect(self._files.attach)
        composer.edit_last_requested.connect(self.edit_last)
        composer.edit_cancelled.connect(self.end_edit)
        composer.thinking_chosen.connect(chats.set_thinking)
        self._files.attached.connect(composer.attachments.add)
        self._files.failed.connect(self.show_problem)
        self._files.told.connect(self.tell)
        self.transcript.suggestion_chosen.connect(lambda text: self._send(text, ()))
        self.notice.retry_requested.connect(self._retry)
        bars.offer = lambda message_id: chats.current.offer(message_id)
        bars.version_chosen.connect(chats.choose)
        bars.edit_requested.connect(self.edit)
        bars.copy_requested.connect(self._copy)
        bars.regenerate_requested.connect(chats.regenerate)
        bars.continue_requested.connect(chats.proceed)

    # ------------------------------------------------------------- what is asked

    def show_problem(self, problem: Problem, can_retry: bool = False) -> None:
        """Tell of a problem without stopping anything."""
        self.notice.show_problem(problem, can_retry)

    def tell(self, sentence: str) -> None:
        """Tell of something that was done, for some seconds."""
        self.told.setText(sentence)
        self.told.show()
        self._told_timer.start()

    def stop(self) -> None:
        """Leave an edit; without one, stop what is under way."""
        if self.composer.is_editing:
            self.end_edit()
        else:
            self._chats.stop()

    def edit(self, message_id: int) -> None:
        """Put a message of the user into the composer; what is sent becomes another version of it."""
        self._edited_id = message_id
        text, files = self._chats.text_of(message_id)
        self.composer.set_editing(True)
        self.composer.attachments.set_files(files)
        self.composer.set_text(text)
        self.composer.setFocus()

    def edit_last(self) -> None:
        """Edit what was asked last."""
        message = self._chats.current.last("user")
        if message is not None and self._chats.current.accepts_message and not self.composer.is_editing:
            self.edit(message.id)

    def end_edit(self) -> None:
        """Leave the message as it was."""
        if self.composer.is_editing:
            self._edited_id = None
            self.composer.set_editing(False)
            self._show_draft()

    def regenerate(self) -> None:
        """Answer the last message again."""
        if self._chats.current.path:
            self._chats.regenerate(self._chats.current.path[-1].id)

    def proceed(self) -> None:
        """Continue the last answer, where it was cut off."""
        last = self._chats.current.last("assistant")
        if last is not None and self._chats.current.offer(last.id).can_continue:
            self._chats.proceed(last.id)

    def copy_answer(self) -> None:
        """Put the last answer on the clipboard."""
        if self.transcript.answer is not None:
            self.transcript.answer.copy_markdown()

    def toggle_thinking(self) -> None:
        """Show or hide the thinking before the last answer."""
        if self.transcript.answer is not None and self.transcript.answer.thinking is not None:
            self.transcript.answer.thinking.button.toggle()

    def open_options(self) -> OptionsDialog:
        """Ask what is wanted for this chat."""
        dialog = OptionsDialog(self._chats.current.options, self._chats.settings, self)
        dialog.chosen.connect(self._on_options)
        dialog.open()
        return dialog

    def show_pair_status(self, status: PairStatus) -> None:
        """The pair's state has changed."""
        self._show_waiting()
        self._show_thinking(status)
        self._offer_pair(status)

    # ------------------------------------------------------------- what the user does

    def _send(self, text: str, files: tuple[TextFile, ...]) -> None:
        edited, self._edited_id = self._edited_id, None
        if self._chats.send(text, files, edited):
            self.notice.hide()
        if edited is not None:
            self.composer.set_editing(False)
            self._show_draft()

    def _retry(self) -> None:
        self.notice.hide()
        self._chats.retry()

    def _on_typed(self, text: str) -> None:
        if not self.composer.is_editing:
            self._chats.note_draft(text)

    def _on_files(self, files: tuple[TextFile, ...]) -> None:
        if not self.composer.is_editing:
            self._chats.note_files(files)

    def _on_options(self, options: ChatOptions) -> None:
        now = self._chats.current.options
        self._chats.set_options(
            msgspec.structs.replace(now, system_prompt=options.system_prompt, sampling=options.sampling)
        )

    def _copy(self, message_id: int) -> None:
        text, _ = self._chats.text_of(message_id)
        QGuiApplication.clipboard().setText(text)

    # ------------------------------------------------------------- what happens

    def _on_opened(self) -> None:
        session = self._chats.current
        writing = session.writing
        self.transcript.show([entry_of(m) for m in session.path if writing is None or m.id != writing.answer_id])
        if writing is not None:
            view = self.transcript.begin_answer()
            if writing.answering.thinking:
                view.append_thinking(writing.answering.thinking)
            if writing.answering.text:
                view.append(writing.answering.text)
            self._show_waiting()
        if session is not self._session:
            self._session = session
            self._edited_id = None
            self.composer.set_editing(False)
            self._show_draft()
            self._show_thinking(self._status())
            self._offer_pair(self._status())
        self._on_state()

    def _on_asked(self, question: Message, _answer: Message) -> None:
        self.transcript.add_user_message(shown_text(question), question.id)
        self.transcript.begin_answer()
        self._show_waiting()

    def _on_answered(self, answer: Message) -> None:
        self.transcript.end_answer(*ending_of(answer), answer.id)

    def _on_state(self, _state: State | None = None) -> None:
        self.composer.set_state(self._chats.state, self._chats.current.accepts_message)
        self.transcript.bars.refresh()
        self._show_waiting()

    def _on_prefill(self, prefill: Prefill) -> None:
        self._show_waiting(f" {round(100 * prefill.done / prefill.total)} %" if prefill.total else "")

    def _on_step(self, step: Step) -> None:
        if self._chats.shows_current_answer and self.transcript.answer is not None:
            self.transcript.answer.add_step(step)

    def _on_text(self, text: str) -> None:
        if self._chats.shows_current_answer and self.transcript.answer is not None:
            self.transcript.answer.append(text)

    def _on_thinking(self, text: str) -> None:
        if self._chats.shows_current_answer and self.transcript.answer is not None:
            self.transcript.answer.append_thinking(text)

    def _show_waiting(self, progress: str = "") -> None:
        answer = self.transcript.answer
        if answer is None or self._chats.current.writing is None:
            return
        status = self._status()
        match self._chats.state:
            case State.WAITING:
                answer.set_status(tr("Waiting for the answer to another chat"))
            case State.LOADING:
                percent = "" if status.percent is None else f" {status.percent} %"
                answer.set_status(tr("Loading the pair: {stage}{percent}").format(stage=status.stage, percent=percent))
            case State.PREFILL:
                answer.set_status(tr("Reading the prompt{percent}").format(percent=progress))
            case State.STOPPING:
                answer.set_status(tr("Stopping"))

    def _show_draft(self) -> None:
        self.composer.attachments.set_files(self._chats.current.files)
        self.composer.set_text(self._chats.current.draft)

    def _show_thinking(self, status: PairStatus) -> None:
        """What this chat was told, or what the loaded model does of itself, where it can be told."""
        thinks = status.loaded.thinks if status.loaded else None
        chosen = self._chats.current.options.sampling.thinking
        self.composer.show_thinking(thinks if thinks is None or chosen is None else chosen)

    def _offer_pair(self, status: PairStatus) -> None:
        """Where this chat used another pair than the loaded one, one click loads it."""
        name = self._chats.current.options.pair
        other = known_pair(name) if name and status.state is PairState.READY and name != status.name else None
        self._other_pair = other
        self.load_pair.setVisible(other is not None)
        if other is not None:
            self.load_pair.setText(tr("This chat used {pair}: load it").format(pair=other.name))
