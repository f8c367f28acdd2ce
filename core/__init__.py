"""Everything of Mirror SD that needs no window: pairs, the worker process, its client, the terminal commands."""

from importlib.metadata import version

__version__: str = version("mirror-sd")
