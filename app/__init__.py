"""The window of Mirror SD: Qt widgets and view models over `core.client`."""
