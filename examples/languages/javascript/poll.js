// The reconciler: called for each resource of the type when the server starts, whenever it changes, and now and then.

import { FALSE, info, TRUE } from "./mortise.js";
import { decodeText, encodeText } from "./utf8.js";

// Remembers how many addresses it has, and says in its status how it is polled.
export function poll(ctx, id, name) {
    const key = `addresses/${name}`;
    const device = ctx.read(id);
    if (!device) {
        ctx.kv.remove(key);
        return;
    }
    const count = device.data.addresses.length;
    const remembered = ctx.kv.get(key);
    if (!remembered || decodeText(Uint8Array.from(remembered)) !== String(count)) ctx.kv.set(key, encodeText(String(count)));
    const polled = count
        ? { state: TRUE, reason: "Scheduled", message: `${count} addresses, every ${device.data.interval} s.` }
        : { state: FALSE, reason: "NoAddress", message: "It has no address." };
    if (ctx.writeStatus(device, "poll", { type: "Polled", ...polled })) info(`polls ${name}`);
}
