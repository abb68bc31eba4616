// Faults on purpose, for .ci/languages: the model of a device chooses one.

export const VERSION = "0.2.0";

// Loops, takes memory, or traps.
export function hostile(model) {
    if (model === "hostile-loop") for (;;);
    if (model === "hostile-memory") for (const taken = []; ; ) taken.push(new Uint8Array(1 << 23));
    if (model === "hostile-trap") throw new Error("on purpose");
}
