"""The live figures and the widgets that draw them."""
