"""The dialog that checks a pair: whether its modes answer as plain decoding does, and how fast."""
