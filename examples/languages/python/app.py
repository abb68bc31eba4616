"""The type `fleet_python.v1.Device`: defaults, rules, permissions and a reconciler."""

import generated
import mortise_sdk as sdk
from device import Device
from poll import poll
from rules import fill_in, judge, may_write
from version import VERSION

DEVICE = sdk.ResourceType(
    "fleet_python.v1.Device",
    Device,
    mutate=fill_in,
    validate=judge,
    authorize_write=may_write,
    columns={"MODEL": "data.model", "INTERVAL": "data.interval"},
)

PLUGIN = sdk.Plugin(
    name="fleet-python",
    version=VERSION,
    descriptors=generated.DEVICE,
    types=[DEVICE],
    controllers=[sdk.Controller("poll", DEVICE, poll, parallel=16)],
    areas=["device"],
    pure_hooks=True,
)

Plugin, Mutating, Validating, Authorizing, Controlling = sdk.export(PLUGIN)
