// The version of the plugin. For .ci/languages, hostile/version.js takes the place of this file.

export const VERSION = "0.1.0";

// Does nothing. A plugin of your own has no such function.
export function hostile() {}
