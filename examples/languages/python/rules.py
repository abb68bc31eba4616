"""The hooks of the type: they depend on their arguments only."""

from mortise_sdk import Diagnostics, Resource, require
from version import hostile


def fill_in(device: Resource):
    """Fills in absent fields, and brings addresses into one form."""
    data = device.data
    hostile(data.model)
    if data.interval == 0:
        data.interval = 60
    data.addresses = [address.lower() for address in data.addresses]


def judge(device: Resource, prior: Resource | None, said: Diagnostics):
    """Checks the result of `fill_in`."""
    data = device.data
    if not data.model:
        said.error("model required", "model")
    if not 5 <= data.interval <= 3600:
        said.error("interval must be 5 to 3600", "interval")
    for place, address in enumerate(data.addresses):
        if address in data.addresses[:place]:
            said.error(f"address {address} is there twice", "addresses", place)
    if prior is not None and prior.data.model != data.model:
        said.warning("the model changes", "model")


def may_write(device: Resource):
    """Demands `device:write` on the name from writers."""
    return require("device:write", device.name)
