"""The race: one prompt, plain decoding on the left, speculation on the right."""
