"""Parts that several tests use."""
