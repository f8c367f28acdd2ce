"""What is said of a token: where it came from and what the draft had proposed there. No Qt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.language import tr
from core.protocol import Origin, Step

_MOST_REJECTED = 8
NAMES: dict[Origin, str] = {
    "draft": tr("accepted from the draft"),
    "correction": tr("corrected by the target"),
    "bonus": tr("bonus of the target"),
    "plain": tr("without a proposal"),
}
"""In the order of the legend."""


@dataclass(frozen=True)
class TokenOrigin:
    """One token of an answer with the engine's verdict on it."""

    text: str
    origin: Origin
    position: int
    """1-based place in the draft's block; 0 where no proposal stood."""
    proposed: int
    """Proposals of the step."""
    rejected: tuple[str, ...]
    """For a correction: what the draft had proposed from here on; the first stood here."""

    def card(self) -> list[str]:
        """Lines for the card of this token."""
        lines = [f"{_quoted(self.text)}: {NAMES[self.origin]}"]
        if self.origin == "draft":
            place = tr("Position {position} of the {proposed} proposed")
            lines.append(place.format(position=self.position, proposed=self.proposed))
        elif self.origin == "bonus":
            lines.append(tr("All {proposed} proposals before it were right").format(proposed=self.proposed))
        elif self.origin == "correction" and self.rejected:
            said = tr("The draft had said {token}, position {position} of {proposed}")
            lines.append(said.format(token=_quoted(self.rejected[0]), position=self.position, proposed=self.proposed))
            if len(self.rejected) > 1:
                thrown = self.rejected[1:]
                shown = " ".join(map(_quoted, thrown[:_MOST_REJECTED]))
                more = len(thrown) - _MOST_REJECTED
                if more > 0:
                    lines.append(tr("Thrown away after it: {tokens} and {more} more").format(tokens=shown, more=more))
                else:
                    lines.append(tr("Thrown away after it: {tokens}").format(tokens=shown))
        return lines


def origins(step: Step) -> Iterator[TokenOrigin]:
    """The tokens of a step as the engine judged them."""
    for token in step.tokens:
        rejected = step.rejected if token.origin == "correction" else ()
        yield TokenOrigin(token.text, token.origin, token.draft_position, step.proposed, rejected)


def _quoted(text: str) -> str:
    shown = text.replace("\n", "⏎").replace("\t", "⇥")
    return f"“{shown}”"
