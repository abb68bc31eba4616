"""Faults on purpose, for .ci/languages: the model of a device chooses one."""

VERSION = "0.2.0"


def hostile(model: str):
    """Loops, takes memory, or traps."""
    if model == "hostile-loop":
        while True:
            pass
    if model == "hostile-memory":
        taken = []
        while True:
            taken.append(bytearray(1 << 23))
    if model == "hostile-trap":
        raise RuntimeError("on purpose")
