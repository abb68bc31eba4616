// A second server beside the one of the walks, with a configuration of its own.
import { writeFileSync } from "node:fs";
import path from "node:path";

import { Mortise } from "./mortise.mjs";
import { startProxy } from "./proxy.mjs";

/** Runs a walk against a server with a configuration, and stops the server. `act` gets the server and the address of its page. */
export async function beside({ binary, work, folder }, { name, mode, config, withSessions = false }, act) {
  const file = path.join(work, `${name}.toml`);
  const data = path.join(work, name);
  writeFileSync(file, `data_dir = "${data}"\nplugin_dir = "${data}-plugins"\n${config}`);
  const server = new Mortise(binary, [mode, "--config", file]);
  let proxy;
  try {
    await server.start();
    proxy = process.env.MORTISE_UI_URL === "self" ? undefined : await startProxy(folder, () => server.http, { withSessions });
    await act(server, proxy?.url ?? `http://${server.http}`, data);
  } finally {
    await proxy?.stop();
    await server.stop();
  }
}
