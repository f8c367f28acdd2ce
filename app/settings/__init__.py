"""The settings in the window: their model, the page, and what follows from each."""
