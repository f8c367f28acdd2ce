"""The pair on screen: its button and the choice of mode."""
