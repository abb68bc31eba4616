"""The reconciler: called for each resource of the type when the server starts, whenever it changes, and now and then."""

from device import Device
from mortise_sdk import FALSE, TRUE, Context, condition, info


def poll(ctx: Context, id: bytes, name: str):
    """Remembers how many addresses it has, and says in its status how it is polled."""
    key = f"addresses/{name}"
    device = ctx.read(id, Device)
    if device is None:
        ctx.kv.remove(key)
        return
    count = len(device.data.addresses)
    text = str(count).encode()
    if ctx.kv.get(key) != text:
        ctx.kv.set(key, text)
    if count:
        polled = condition("Polled", TRUE, "Scheduled", f"{count} addresses, every {device.data.interval} s.")
    else:
        polled = condition("Polled", FALSE, "NoAddress", "It has no address.")
    if ctx.write_status(device, "poll", polled):
        info(f"polls {name}")
