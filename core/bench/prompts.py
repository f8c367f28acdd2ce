"""The fixed prompts of benchmarks, of `mirror-sd bench` and `check`; and prompts from a user's file.

Forty of several kinds: the text of an answer decides how well a draft does.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from core.errors import MissingFile, UnreadablePrompts

PROMPTS: tuple[str, ...] = (
    # Talk and explanation
    "Write a short story about a lighthouse keeper who finds a letter in a bottle.",
    "Explain to a child why the sky is blue.",
    "What is the capital of France, and what is it known for?",
    "What is the difference between a virus and a bacterium?",
    "Summarise the water cycle in three sentences.",
    "Hi! How are you today?",
    "Why do cats purr?",
    "Describe the taste of an orange to someone who has never eaten one.",
    "Who wrote Romeo and Juliet, and what happens at the end?",
    "Tell me a joke about a programmer and a light bulb.",
    # Code
    "Write a Python function that returns the n-th Fibonacci number.",
    "Write a Python function that reverses a list, and explain it in two short sentences.",
    "What does this do? for i in range(10): print(i * i)",
    "Write an SQL query that counts the orders of each customer.",
    "Write a bash command that finds all files larger than 100 MB.",
    'Fix this JSON: {"name": "Ada", "age": 36,}',
    "Write a regular expression that matches an email address.",
    "Explain the difference between a list and a tuple in Python.",
    # Lists and forms
    "Give me a recipe for pancakes with the steps numbered.",
    "List five ways to save water at home.",
    "Write a polite email asking a landlord to repair a leaking tap.",
    "Count from 1 to 30, separated by commas.",
    "Make a Markdown table of the four seasons with a typical colour and a typical food.",
    "List the planets of the solar system from the sun outwards.",
    "Write a shopping list for a birthday party.",
    "Give three arguments for and three against working from home.",
    "Repeat the sentence 'The quick brown fox jumps over the lazy dog.' five times.",
    # Other languages and scripts
    "Translate into French: Good morning, how are you today?",
    "Schreibe drei Sätze über den Herbst.",
    "¿Cuál es la capital de España?",
    "请用中文介绍一下北京。",
    "日本の首都はどこですか。",
    "Какая самая длинная река в России?",
    "ما هي عاصمة مصر؟",
    "भारत की राजधानी क्या है?",
    "Ποια είναι η πρωτεύουσα της Ελλάδας;",
    # Emoji, symbols, numbers
    "Write a birthday wish with many emoji 🎂🎉👨‍👩‍👧‍👦.",
    "What do these emoji mean: 🚀 🌍 ❤️ 👍🏽?",
    "What is 17 * 23? Show each step.",
    "Solve for x: 3x + 5 = 20.",
)

FEW_PROMPTS: tuple[str, ...] = PROMPTS[::4]
"""Ten of them, for what has to be quick."""

_MOST_BYTES = 4 << 20
_MOST_PROMPTS = 10_000


def read_prompts(path: Path) -> tuple[str, ...]:
    """The prompts in a file: a JSON list of strings where its name ends in .json, else one a line.

    Blank ones are left out. Raises `MissingFile` and `UnreadablePrompts`.
    """
    try:
        if not path.is_file():
            raise MissingFile(f"There is no file {path}.", "Name a text file with one prompt a line.")
        if path.stat().st_size > _MOST_BYTES:
            raise UnreadablePrompts(f"{path} is too large for a file of prompts.", f"At most {_MOST_BYTES:,} bytes.")
        text = path.read_text(encoding="utf-8-sig")
        prompts = msgspec.json.decode(text, type=list[str]) if path.suffix == ".json" else text.split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadablePrompts(f"{path} cannot be read as text.", "Save it as UTF-8.", str(error)) from error
    except msgspec.DecodeError as error:
        raise UnreadablePrompts(f"{path} is no JSON list of strings.", detail=str(error)) from error
    kept = tuple(prompt.strip() for prompt in prompts if prompt.strip())
    if not kept:
        raise UnreadablePrompts(f"There are no prompts in {path}.", "Write one a line.")
    if len(kept) > _MOST_PROMPTS:
        raise UnreadablePrompts(f"There are {len(kept):,} prompts in {path}.", f"At most {_MOST_PROMPTS:,} are taken.")
    return kept
