// The type `fleet_javascript.v1.Device`: defaults, rules, permissions and a reconciler.

import descriptors from "./generated/device.js";
import * as mortise from "./mortise.js";
import { poll } from "./poll.js";
import { fillIn, judge, mayWrite } from "./rules.js";
import { VERSION } from "./version.js";

const DEVICE = {
    name: "fleet_javascript.v1.Device",
    message: "fleet.v1.Device",
    descriptors,
    mutate: fillIn,
    validate: judge,
    authorizeWrite: mayWrite,
    columns: { MODEL: "data.model", INTERVAL: "data.interval" },
};

export const { plugin, mutating, validating, authorizing, controlling } = mortise.plugin({
    name: "fleet-javascript",
    version: VERSION,
    areas: ["device"],
    pureHooks: true,
    types: [DEVICE],
    controllers: [{ name: "poll", manages: DEVICE.name, reconcile: poll, parallel: 16 }],
});
