"""The message fleet.v1.Device of ../proto."""

import generated
from messages import load, message

load(generated.DEVICE)
Device = message("fleet.v1.Device")
