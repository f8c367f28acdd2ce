"""The column of live statistics."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QBoxLayout, QButtonGroup, QFrame, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.language import tr
from app.pairs.mode_selector import Devices, mode_label
from app.stats import words
from app.stats.dial import Dial
from app.stats.figures import Figures, Scope, verdict
from app.stats.histogram import Histogram
from app.stats.meter import Meter
from app.stats.overlap import OverlapView, TimelineWindow
from app.stats.row import FigureRow
from app.stats.step_bar import StepBar
from app.stats.step_record import AnswerRecord
from app.theme import PANEL_WIDTH, scaled
from app.widgets import label, line, push_button, set_kind
from core.protocol import Loaded

_SIDE = 18
_SPEED_COLORS = {"faster": "good", "equal": "accent", "slower": "warn"}
_MOST_CHANGES = 5
_POSITIONS_HINT = tr("Of the blocks that proposed a token there")
LITTLE_BYTES = 1_000_000_000
"""Free memory of the machine below which the panel warns."""
_SWAPS = tr(
    "Little is left: answers slow down when the system moves memory to the disk. Free the pair, or close programs."
)
_ROWS = {
    "speed_up": (
        tr("Speed-up"),
        tr("Known after a second of an answer with proposals, where plain decoding was measured."),
    ),
    "draft": (tr("Draft"), tr("Known after the first step of an answer; not kept with saved answers.")),
    "verify": (tr("Verify"), tr("Known after the first step of an answer; not kept with saved answers.")),
    "other": (tr("Other work"), tr("Known after the first step of an answer; not kept with saved answers.")),
    "modes": (tr("Decoded by"), tr("Known after the first step of an answer.")),
    "kinds": (
        tr("Tokens per step in"),
        tr("Known after eight blocks of a kind of text; not kept with saved answers."),
    ),
    "first_token": (tr("First token"), tr("Known when the first token is there; for an answer, not for a chat.")),
    "context": (tr("Context"), tr("Known when a pair is loaded.")),
    "memory": (tr("Memory"), tr("The engine does not run.")),
    "free": (tr("Free in this machine"), tr("The engine does not run.")),
    "device": (tr("Runs on"), tr("Known when the engine has started.")),
    "blas": (tr("Matrix library"), tr("Known when the engine has started.")),
}


class StatsPanel(QFrame):
    """Dials, tokens per step, positions, overlap, times, context and memory of an answer or of the chat."""

    scope_changed = Signal()
    problem_met = Signal(object)
    """`Problem`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "panel")
        self.setAccessibleName(tr("Statistics"))
        self.of_answer, self.of_chat = (_scope_button(*texts) for texts in _SCOPES)
        self.speed = Dial(tr("speed"))
        self.acceptance = Dial(tr("draft accepted"))
        self.reference = label("", "muted", wraps=True)
        self.reference.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.per_step = label(words.MISSING, "number")
        self.per_step.setAccessibleName(tr("Tokens per step"))
        self.per_step_of = label("", "muted")
        self.step_bar = StepBar()
        self.counterfactual = label(words.MISSING, "muted", wraps=True)
        self.counterfactual.setMinimumHeight(2 * self.counterfactual.fontMetrics().lineSpacing())
        self.counterfactual.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.histogram = Histogram()
        self.position = label(_POSITIONS_HINT, "muted", wraps=True)
        self.overlap = OverlapView()
        self.timeline_window: TimelineWindow | None = None
        self.rows = {name: FigureRow(*texts) for name, texts in _ROWS.items()}
        self.context_meter = Meter(tr("Context in use"))
        self.changes = label("", "muted", wraps=True)
        self.missing = label("", "muted", wraps=True)
        self._turning: list[QBoxLayout] = []
        self._expert: list[QWidget] = []
        self._simple = False
        self._devices = Devices()
        self._figures = Figures()
        self._record = AnswerRecord()
        self._lay_out()
        self._connect()
        self.set_room(scaled(PANEL_WIDTH))
        self.show_loaded(None)
        self.show_figures(Figures())

    # ------------------------------------------------------------ what is shown

    @property
    def scope(self) -> Scope:
        """Whose figures the user wants to see."""
        return "chat" if self.of_chat.isChecked() else "answer"

    def show_figures(self, figures: Figures) -> None:
        """Show these figures."""
        self._figures = figures
        self.of_answer.setText(tr("Saved answer") if figures.saved else tr("Answer"))
        self._show_speed(figures)
        self._show_acceptance(figures)
        self._show_rows(figures)
        self.histogram.show_positions(figures.positions)
        self._show_position(self.histogram.pointed)
        self.counterfactual.setText(words.counterfactual(figures.took_s, figures.plain_s))
        self.counterfactual.setToolTip(_ROWS["speed_up"][1] if figures.took_s is None else "")
        self._show_changes(figures)

    def show_record(self, record: AnswerRecord) -> None:
        """The steps of the answer under way, or of the last one."""
        self._record = record
        self.overlap.show_record(record)
        if self.timeline_window is not None and self.timeline_window.isVisible():
            self.timeline_window.view.show_record(record)

    def set_devices(self, devices: Devices) -> None:
        """What the modes run on."""
        self._devices = devices
        self.overlap.set_devices(devices)
        if self.timeline_window is not None:
            self.timeline_window.view.set_devices(devices)

    def show_device(self, device: str, blas: str) -> None:
        """What the engine runs on."""
        self.rows["device"].show_value(device)
        self.rows["blas"].show_value(blas)

    def show_loaded(self, loaded: Loaded | None) -> None:
        """The loaded pair: which of its modes cannot run, and why."""
        missing = loaded.missing if loaded else ()
        lines = [f"{mode_label(each.mode, self._devices)}: {each.reason}" for each in missing]
        self.missing.setText("\n".join(lines) or (tr("None.") if loaded else tr("Known when a pair is loaded.")))

    def set_room(self, width: int) -> None:
        """Be as wide as the text asks for, up to `width` pixels; with less room what stands side by side is stacked."""
        wanted = scaled(PANEL_WIDTH)
        self.setFixedWidth(min(wanted, width))
        narrow = width < wanted
        down, right = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        for layout in self._turning:
            layout.setDirection(down if narrow else right)
        for row in (*self.rows.values(), self.overlap.hidden):
            row.set_stacked(narrow)
        self.overlap.set_narrow(narrow)

    def set_simple(self, simple: bool) -> None:
        """Hide what only experts look at."""
        self._simple = simple
        for widget in self._expert:
            widget.setVisible(not simple)

    def open_timeline(self) -> None:
        """The timeline in a window of its own."""
        if self.timeline_window is None:
            self.timeline_window = TimelineWindow(self)
            self.timeline_window.view.problem_met.connect(self.problem_met)
            self.timeline_window.view.set_devices(self._devices)
        self.timeline_window.show()
        self.timeline_window.activateWindow()
        self.timeline_window.view.show_record(self._record)

    def _show_speed(self, figures: Figures) -> None:
        speed, plain = figures.tokens_per_second, figures.plain_tokens_per_second
        color = "accent"
        if speed is not None and plain is not None and figures.tokens_per_step is not None:
            color = _SPEED_COLORS[verdict(speed / plain)]
        self.speed.show_value(
            None if speed is None else speed / figures.dial_top,
            words.speed(speed),
            "tok/s",
            color,
            None if plain is None else plain / figures.dial_top,
        )
        self.speed.setToolTip(tr("Known after the second step of an answer.") if speed is None else "")
        measured = tr("mark: plain, measured {speed} tok/s").format(speed=words.speed(plain))
        self.reference.setText("" if plain is None else measured)

    def _show_acceptance(self, figures: Figures) -> None:
        accepted, per_step = figures.acceptance, figures.tokens_per_step
        self.acceptance.show_value(
            accepted,
            words.MISSING if accepted is None else f"{100 * accepted:.0f} %",
            "" if accepted is None else tr("of verified"),
        )
        why = "" if accepted is not None else tr("Known once a draft's proposals have been verified.")
        self.acceptance.setToolTip(why)
        self.per_step.setToolTip(why)
        self.per_step.setText(words.MISSING if per_step is None else f"{per_step:.1f}")
        self.per_step_of.setText("" if figures.width is None else tr("of at most {width}").format(width=figures.width))
        self.step_bar.show_value(per_step, figures.width)

    def _show_rows(self, figures: Figures) -> None:
        speed_up = figures.speed_up
        times = words.MISSING if speed_up is None else tr("{speed_up:.2f}x plain decoding").format(speed_up=speed_up)
        for name, text in {
            "speed_up": times,
            "draft": words.milliseconds(figures.draft_ms),
            "verify": words.milliseconds(figures.verify_ms),
            "other": words.milliseconds(figures.other_ms),
            "kinds": words.text_kinds(figures.kinds),
            "first_token": words.seconds(figures.time_to_first_token_s),
            "memory": words.memory(figures.memory_bytes),
        }.items():
            self.rows[name].show_value(text)
        self._show_free(figures.free_bytes)
        modes = words.decoded_by(figures.modes, self._devices) or [words.MISSING]
        self.rows["modes"].show_value(modes[0], ", ".join(modes[1:]), figures.mode_reason)
        self._show_context(figures)

    def _show_context(self, figures: Figures) -> None:
        used, length, seen = figures.context_used or 0, figures.context_length, figures.programs_context
        shortened = words.hidden_middle(used, seen) if length and 0 < seen < length else ""
        self.rows["context"].show_value(words.count_of(used, length), shortened)
        self.context_meter.show_share(
            used / length if length else None, seen / length if shortened and length else None
        )

    def _show_free(self, free_bytes: int | None) -> None:
        little = free_bytes is not None and free_bytes < LITTLE_BYTES
        self.rows["free"].show_value(words.memory(free_bytes), _SWAPS if little else "", warns=little)

    def _show_changes(self, figures: Figures) -> None:
        newest_first = [words.change_line(each, self._devices) for each in reversed(figures.changes)]
        lines = newest_first[:_MOST_CHANGES]
        if len(newest_first) > _MOST_CHANGES:
            lines.append(tr("{count} more before").format(count=len(newest_first) - _MOST_CHANGES))
        if figures.inactive:
            lines.insert(0, tr("Speculation inactive: {reason}").format(reason=figures.inactive))
        self.changes.setText("\n".join(lines) or tr("None in the last answer."))

    def _show_position(self, number: int) -> None:
        known = 0 < number <= len(self._figures.positions)
        text = words.position_line(number, self._figures.positions[number - 1]) if known else _POSITIONS_HINT
        self.position.setText(text)

    # ------------------------------------------------------------------- layout

    def _connect(self) -> None:
        self.of_chat.toggled.connect(lambda: self.scope_changed.emit())
        self.histogram.position_pointed.connect(self._show_position)
        self.overlap.problem_met.connect(self.problem_met)
        self.overlap.enlarge_requested.connect(self.open_timeline)

    def _lay_out(self) -> None:
        body = QWidget()
        set_kind(body, "panel-body")
        layout = QVBoxLayout(body)
        layout.setContentsMargins(_SIDE, 14, _SIDE, 18)
        layout.setSpacing(10)
        scopes = self._turning_row()
        scopes.setSpacing(4)
        self._scopes = QButtonGroup(self)
        for button in (self.of_answer, self.of_chat):
            self._scopes.addButton(button)
            scopes.addWidget(button)
        self.of_answer.setChecked(True)
        layout.addLayout(scopes)
        dials = self._turning_row()
        dials.addWidget(self.speed, 0, Qt.AlignmentFlag.AlignHCenter)
        dials.addStretch(1)
        dials.addWidget(self.acceptance, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addLayout(dials)
        layout.addWidget(self.reference)
        numbers = self._turning_row()
        numbers.addWidget(self.per_step)
        numbers.addWidget(self.per_step_of, 1, Qt.AlignmentFlag.AlignBottom)
        add = layout.addWidget
        add(_section(tr("Tokens per step"), numbers, self.step_bar))
        add(_section(tr("Against plain decoding"), self.rows["speed_up"], self.counterfactual))
        add(self._for_experts(_section(tr("Accepted by position"), self.histogram, self.position)))
        add(self._for_experts(_section(tr("Overlap of the last answer"), self.overlap)))
        times = (self.rows[name] for name in ("draft", "verify", "other"))
        add(self._for_experts(_section(tr("Time of a step"), *times)))
        add(_section(tr("Answer"), self.rows["modes"], self.rows["first_token"], self._for_experts(self.rows["kinds"])))
        add(
            _section(
                tr("Context and memory"),
                self.rows["context"],
                self.context_meter,
                self.rows["memory"],
                self.rows["free"],
            )
        )
        add(self._for_experts(_section(tr("Engine"), self.rows["device"], self.rows["blas"])))
        add(self._for_experts(_section(tr("Modes that cannot run"), self.missing)))
        add(self._for_experts(_section(tr("Changes of mode"), self.changes)))  # last, since it grows
        layout.addStretch()
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(body)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(1, 0, 0, 0)
        outer.addWidget(scroll)

    def _turning_row(self) -> QBoxLayout:
        row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        row.setSpacing(4)
        self._turning.append(row)
        return row

    def _for_experts(self, widget: QWidget) -> QWidget:
        self._expert.append(widget)
        return widget


_SCOPES = (
    (tr("Answer"), tr("The figures of the answer under way, or of the last one")),
    (tr("Chat"), tr("The figures of all answers of this chat together")),
)


def _scope_button(text: str, description: str) -> QPushButton:
    button = push_button(text, description)
    set_kind(button, "scope")
    button.setCheckable(True)
    return button


def _section(title: str, *parts: QWidget | QBoxLayout) -> QWidget:
    section = QWidget()
    layout = QVBoxLayout(section)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(8)
    layout.addWidget(line())
    layout.addWidget(label(title, "strong", wraps=True))
    for part in parts:
        if isinstance(part, QWidget):
            layout.addWidget(part)
        else:
            layout.addLayout(part)
    return section
