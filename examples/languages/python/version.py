"""The version of the plugin. For .ci/languages, hostile/version.py takes the place of this file."""

VERSION = "0.1.0"


def hostile(model: str):
    """Does nothing. A plugin of your own has no such function."""
