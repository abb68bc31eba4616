// Sign-in, refusals, and a token that ends while the page is open, against a server with access control.
import path from "node:path";

import { assert, isLive, sees } from "./assert.mjs";
import { Mortise } from "./mortise.mjs";
import { startProxy } from "./proxy.mjs";

export default async function session({ step, open, binary, work, folder }) {
  await step("session: sign in, permission denied, a token that ends, sign out", async () => {
    const guarded = new Mortise(binary, ["serve", "--data-dir", path.join(work, "guarded"), "--plugin-dir", path.join(work, "guarded-plugins")]);
    let proxy;
    try {
      await guarded.start();
      const socket = { MORTISE_ADDR: `unix://${path.join(work, "guarded", "mortise.sock")}` };
      await guarded.run(["policy", "create", "reader", "--allow", "read,list:tenancy/*@default/default"], { env: socket });
      const token = path.join(work, "reader.token");
      await guarded.run(["token", "create", "reader", "--policy", "reader", "--out", token], { env: socket });
      const secret = (await import("node:fs")).readFileSync(token, "utf8").trim();
      proxy = await startProxy(folder, () => guarded.http, { withSessions: true });
      const page = await open("/ui/", { base: proxy.url });
      await page.getByLabel("Token", { exact: true }).fill("no-such-token");
      await page.getByRole("button", { name: "Sign in" }).click();
      await sees(page, "does not know this token");
      await page.getByLabel("Token", { exact: true }).fill(secret);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("button", { name: "Sign out" }).waitFor();
      await sees(page, "Permission denied");
      await page.goto(`${proxy.url}/ui/r/tenancy.v2beta1.Namespace`);
      await page.getByRole("grid").waitFor();
      await isLive(page);
      await guarded.run(["token", "delete", "reader"], { env: socket });
      await sees(page, "no longer valid");
      assert.equal(await page.getByRole("grid").count(), 0);
    } finally {
      await proxy?.stop();
      await guarded.stop();
    }
  });
}
