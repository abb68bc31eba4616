// The hooks of the type: they depend on their arguments only.

import { require } from "./mortise.js";
import { hostile } from "./version.js";

// Fills in absent fields, and brings addresses into one form.
export function fillIn({ data }) {
    hostile(data.model);
    data.interval ||= 60;
    data.addresses = data.addresses.map((address) => address.toLowerCase());
}

// Checks the result of `fillIn`.
export function judge({ data }, prior, said) {
    if (!data.model) said.error("model required", "model");
    if (data.interval < 5 || data.interval > 3600) said.error("interval must be 5 to 3600", "interval");
    data.addresses.forEach((address, place) => {
        if (data.addresses.indexOf(address) < place) said.error(`address ${address} is there twice`, "addresses", place);
    });
    if (prior && prior.data.model !== data.model) said.warning("the model changes", "model");
}

// Writers need `device:write` on the name.
export const mayWrite = (device) => require("device:write", device.name);
