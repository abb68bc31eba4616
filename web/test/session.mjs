// Sign-in, refusals, and a token that ends while the page is open, against a server with access control.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

import { assert, isLive, sees } from "./assert.mjs";
import { Mortise } from "./mortise.mjs";
import { startProxy } from "./proxy.mjs";

export default async function session({ step, open, binary, work, folder }) {
  await step("session: sign in, permission denied, sign out, a token that ends", async () => {
    const data = path.join(work, "guarded");
    const config = path.join(work, "guarded.toml");
    writeFileSync(config, `data_dir = "${data}"\nplugin_dir = "${data}-plugins"\n[plugins]\nbundled = ["demo"]\n`);
    const guarded = new Mortise(binary, ["serve", "--config", config]);
    let proxy;
    try {
      await guarded.start();
      const env = { MORTISE_ADDR: `unix://${path.join(data, "mortise.sock")}` };
      const file = path.join(work, "reader.token");
      await guarded.run(["policy", "create", "reader", "--allow", "read,list:demo/*@default/default"], { env });
      await guarded.run(["token", "create", "reader", "--policy", "reader", "--out", file], { env });
      await guarded.run(["create", "demo.v2.Artist", "korn", "--data", '{"name": "Korn"}'], { env });
      const secret = readFileSync(file, "utf8").trim();
      proxy = process.env.MORTISE_UI_URL === "self" ? undefined : await startProxy(folder, () => guarded.http, { withSessions: true });
      const base = proxy?.url ?? `http://${guarded.http}`;

      const page = await open("/ui/", { base });
      const enter = async (token) => {
        await page.getByLabel("Token", { exact: true }).fill(token);
        await page.getByRole("button", { name: "Sign in" }).click();
      };
      await enter("no-such-token");
      await sees(page, "does not know this token");
      await enter(secret);
      await page.getByRole("button", { name: "Sign out" }).waitFor();
      await page.getByRole("alert").getByText("operator:read").first().waitFor();

      await page.goto(`${base}/ui/r/demo.v2.Artist/korn?view=edit`);
      await page.locator('[data-field="name"] input').fill("Mine");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("alert").getByText("Permission denied").first().waitFor();
      page.once("dialog", (dialog) => dialog.accept());
      await page.goto(`${base}/ui/r/demo.v2.Artist`);
      await page.getByRole("link", { name: "korn" }).waitFor();
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByLabel("Token", { exact: true }).waitFor();
      assert.equal(await page.getByText("korn").count(), 0);

      await enter(secret);
      await page.getByRole("link", { name: "korn" }).waitFor();
      await isLive(page);
      await guarded.run(["token", "delete", "reader"], { env });
      await sees(page, "no longer valid");
      assert.equal(await page.getByText("korn").count(), 0);
    } finally {
      await proxy?.stop();
      await guarded.stop();
    }
  }, true);
}
