"""Tasks whose answers repeat their prompts: summaries and edits."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["summary", "edit"]


class Task(NamedTuple):
    """What is asked of a text."""

    kind: Kind
    request: str
    text: str
    opening: str
    """How the answer begins, for a model that only goes on with a text."""

    @property
    def message(self) -> str:
        """As the message of a conversation."""
        return f"{self.request}\n\n{self.text}"

    @property
    def beginning(self) -> str:
        """As a text that the model goes on with."""
        return f"{self.text}\n\n{self.request}\n\n{self.opening}"


_LIGHTHOUSE = (
    "The lighthouse on Grey Point was built in 1871, after three ships had been lost on the reef in a single winter. "
    "Its first keeper, Amos Tull, lit the lamp every evening for thirty-four years and kept a diary of the weather. "
    "When the station was made automatic in 1982, the diaries were found in a cupboard behind the stairs. Scientists "
    "now use them to learn how storms on this coast have changed: the diaries show that winter storms came later in "
    "the year, but that they were stronger. The lighthouse itself is open to visitors from May to September."
)
_BEES = (
    "Honey bees tell each other where food is by dancing. A bee that has found flowers runs in a short straight line "
    "and waggles her body, then turns back and runs the line again. The angle of the line against the vertical is the "
    "angle between the flowers and the sun, and the longer she waggles, the farther away the flowers are. Other bees "
    "follow the dancer with their antennae and then fly out. When the sun moves, the dancer changes the angle, though "
    "she has not seen the sky since she came home."
)
_CANAL = (
    "The town council met on Tuesday to decide about the old canal. The canal has not carried boats since 1954, and "
    "parts of it are dry. Councillor Reyes proposed to fill it in and to build a cycle path along it, which would cost "
    "two million. Councillor Okafor proposed to repair the locks instead, so that boats can use the canal again, which "
    "would cost six million. The council decided to ask engineers for a report on both plans, and to vote in March."
)
_TOTALS = """def total_price(items, discount):
    total = 0
    for item in items:
        price = item["price"] * item["count"]
        if item["taxed"]:
            price = price * 1.2
        total = total + price
    if discount is not None:
        total = total - total * discount
    return total
"""
_CONFIG = """[server]
host = "127.0.0.1"
port = 8080
workers = 4
timeout = 30

[database]
host = "db.example.org"
port = 5432
name = "orders"
user = "orders_app"
pool_size = 10

[logging]
level = "info"
file = "/var/log/orders.log"
"""
_LETTER = (
    "Dear Ms Alvarez,\n\nthank you for your order of the 4th of May. We are sorry to tell you that the blue lamp is "
    "sold out at the moment. We expect new lamps in two weeks. If you do not want to wait, we will send your money "
    "back at once. The green lamp, of the same size and price, can be sent today.\n\nYours sincerely,\nTom Becker"
)

TASKS: tuple[Task, ...] = (
    Task("summary", "Summarise this text in two sentences.", _LIGHTHOUSE, "Summary: The lighthouse"),
    Task("summary", "Summarise this text in two sentences.", _BEES, "Summary: Honey bees"),
    Task("summary", "Summarise this text in two sentences.", _CANAL, "Summary: The town council"),
    Task("edit", "Rename the variable `total` to `amount` and show the whole function.", _TOTALS, "def total_price("),
    Task("edit", "Change the server's port to 9090 and show the whole file.", _CONFIG, "[server]\nhost ="),
    Task("edit", "Correct the letter: the lamp is red, not blue. Show the whole letter.", _LETTER, "Dear Ms Alvarez,"),
)
