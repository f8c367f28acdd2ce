"""A tokenizer for the tiny random target."""

from __future__ import annotations

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models
from transformers import PreTrainedTokenizerFast

from core.engine.tokenizer import Tokenizer
from helpers.tiny import VOCABULARY


def letters() -> Tokenizer:
    """A letter for every token of the tiny target, and a template that renders the message alone."""
    backend = Backend(models.BPE({chr(33 + i): i for i in range(VOCABULARY - 2)} | {"Ġ": 94, "Ċ": 95}, []))
    backend.decoder = decoders.ByteLevel()
    template = "{{ messages[0].content }}"
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=template), [], "letters")
