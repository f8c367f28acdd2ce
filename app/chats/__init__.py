"""The chats in the window: their list, the one that is open, and what is written in them."""
