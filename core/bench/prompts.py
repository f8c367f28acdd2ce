"""The fixed prompts of `mirror-sd bench` and of the comparison of modes in the tests."""

PROMPTS: tuple[str, ...] = (
    "Write a short story about a lighthouse keeper who finds a letter in a bottle.",
    "Explain to a child why the sky is blue.",
    "Give me a recipe for pancakes with the steps numbered.",
    "What is the capital of France, and what is it known for?",
    "Write a Python function that returns the n-th Fibonacci number.",
    "List five ways to save water at home.",
    "Write a polite email asking a landlord to repair a leaking tap.",
    "What is the difference between a virus and a bacterium?",
    "Translate into French: Good morning, how are you today?",
    "Summarise the water cycle in three sentences.",
)
