"""What the user wants for one chat: the system prompt, and how answers are sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QDialog, QFormLayout, QHBoxLayout, QLineEdit, QPlainTextEdit, QWidget

from app.language import tr
from app.theme import scaled
from app.widgets import label, push_button, scrolled_page, set_kind
from core.chats import ChatOptions, Sampling
from core.protocol import GenerateOptions
from core.settings import Settings

_SIZE = QSize(520, 690)
_MOST_SIZE = QSize(860, 740)


@dataclass(frozen=True)
class Field:
    """One number of `Sampling`."""

    name: str
    text: str
    kind: type[int] | type[float]
    least: float
    greatest: float
    hint: str = ""
    expert: bool = True
    """Hidden in the simple window."""
    usual: str = ""
    """What stands for no choice, where that is not the settings' number."""


FIELDS = (
    Field("temperature", tr("Temperature"), float, 0, 2, tr("0 always takes the likeliest word"), expert=False),
    Field("max_tokens", tr("Longest answer, in tokens"), int, 1, 1_000_000),
    Field("top_p", tr("Top p"), float, 0, 1, tr("only the likeliest words that make up this share; 1 is all")),
    Field("top_k", tr("Top k"), int, 0, 1_000_000, tr("only so many of the likeliest words; 0 is all")),
    Field("min_p", tr("Min p"), float, 0, 1, tr("only words at least this likely beside the likeliest")),
    Field("repetition_penalty", tr("Repetition penalty"), float, 0.1, 10, tr("above 1, words come less often again")),
    Field(
        "seed",
        tr("Seed"),
        int,
        0,
        2**31 - 1,
        tr("the same seed, the same answer"),
        usual=tr("another one for each version"),
    ),
)


class OptionsDialog(QDialog):
    """Empty fields are left to the settings, which show in grey. What the simple window hides stays as it is."""

    chosen = Signal(object)
    """`ChatOptions`."""

    def __init__(self, options: ChatOptions, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Chat options"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._options = options
        self.prompt = QPlainTextEdit()
        set_kind(self.prompt, "field")
        self.prompt.setPlainText(options.system_prompt)
        self.prompt.setTabChangesFocus(True)
        self.prompt.setAccessibleName(tr("System prompt"))
        self.prompt.setPlaceholderText(tr("Told to the model before the first message"))
        defaults = GenerateOptions(max_tokens=settings.max_tokens, temperature=settings.temperature)
        self.fields = {field.name: self._edit(field, getattr(defaults, field.name)) for field in FIELDS}
        self.stop = QLineEdit(", ".join(options.sampling.stop or ()))
        self.stop.setAccessibleName(tr("Stop at"))
        self.stop.setPlaceholderText(tr("words, with commas between them"))
        self.problem = label("", "reason", wraps=True)
        self.problem.hide()
        self.cancel = push_button(tr("Cancel"), tr("Leave everything as it was"))
        self.cancel.clicked.connect(self.reject)
        self.save = push_button(tr("Save"), tr("Use these options in this chat from the next answer on"))
        set_kind(self.save, "primary")
        self.save.setDefault(True)
        self.save.clicked.connect(self._save)
        self._lay_out(settings.simple)
        self.resize(min(scaled(_SIZE.width()), _MOST_SIZE.width()), min(scaled(_SIZE.height()), _MOST_SIZE.height()))

    def _lay_out(self, simple: bool) -> None:
        form = QFormLayout()
        form.setSpacing(8)
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        for field in FIELDS:
            form.addRow(label(field.text, "value"), self.fields[field.name])
            form.setRowVisible(self.fields[field.name], not (simple and field.expert))
        form.addRow(label(tr("Stop at"), "value"), self.stop)
        form.setRowVisible(self.stop, not simple)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.cancel)
        buttons.addWidget(self.save)
        outer, layout = scrolled_page(self)
        layout.setContentsMargins(20, 18, 20, 4)
        layout.setSpacing(10)
        layout.addWidget(label(tr("System prompt"), "strong"))
        layout.addWidget(self.prompt, 1)
        layout.addWidget(label(tr("Answers of this chat"), "strong"))
        layout.addWidget(label(tr("Empty fields follow the settings, whose values show in grey."), "muted", wraps=True))
        layout.addLayout(form)
        layout.addWidget(self.problem)
        buttons.setContentsMargins(20, 10, 20, 16)
        outer.addLayout(buttons)

    def _edit(self, field: Field, default: float) -> QLineEdit:
        known = getattr(self._options.sampling, field.name)
        edit = QLineEdit("" if known is None else f"{known:g}" if field.kind is float else str(known))
        edit.setAccessibleName(field.text)
        edit.setAccessibleDescription(field.hint)
        edit.setPlaceholderText(field.usual or f"{default:g}")
        edit.setToolTip(field.hint)
        return edit

    def _save(self) -> None:
        values: dict[str, Any] = {}
        for field in FIELDS:
            text = self.fields[field.name].text().strip()
            value = _number(text, field) if text else None
            if text and value is None:
                whole = tr("{field} must be a whole number from {least:,} to {greatest:,}.")
                wanted = whole if field.kind is int else tr("{field} must be a number from {least:,} to {greatest:,}.")
                self.problem.setText(wanted.format(field=field.text, least=field.least, greatest=field.greatest))
                self.problem.show()
                self.fields[field.name].setFocus()
                return
            values[field.name] = value
        values["stop"] = tuple(part.strip() for part in self.stop.text().split(",") if part.strip()) or None
        sampling: Sampling = msgspec.structs.replace(self._options.sampling, **values)
        self.chosen.emit(
            msgspec.structs.replace(self._options, system_prompt=self.prompt.toPlainText(), sampling=sampling)
        )
        self.accept()


def _number(text: str, field: Field) -> float | None:
    """The number, where it is one that the field may have."""
    try:
        value = field.kind(text.replace(",", ".") if field.kind is float else text)
    except ValueError:
        return None
    return value if field.least <= value <= field.greatest else None
