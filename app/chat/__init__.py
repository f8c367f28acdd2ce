"""The conversation on screen: transcript, message blocks, composer."""
