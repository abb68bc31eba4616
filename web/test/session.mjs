// Sign-in, refusals, and a token that ends while the page is open, against a server with access control.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

import { assert, isLive, sees } from "./assert.mjs";
import { beside } from "./beside.mjs";
import { drop, ownLimits, variant } from "./components.mjs";

const CONFIG = '[plugins]\nbundled = ["demo"]\n';

export default async function session(test) {
  const { step, open, work } = test;
  /** A server with access control, and what a walk does with it. */
  const guarded = (act) =>
    beside(test, { name: "guarded", mode: "serve", config: CONFIG, withSessions: true }, async (server, base, data) => {
      const env = { MORTISE_ADDR: `unix://${path.join(data, "mortise.sock")}` };
      const run = (...args) => server.run(args, { env });
      const token = async (name, ...policies) => {
        const file = path.join(work, `${name}.token`);
        await run("token", "create", name, ...policies.flatMap((policy) => ["--policy", policy]), "--out", file);
        return readFileSync(file, "utf8").trim();
      };
      await act({ server, base, run, token });
    });
  const enter = async (page, token) => {
    await page.getByLabel("Token", { exact: true }).fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
  };

  await step("session: sign in, permission denied, sign out, a token that ends", () =>
    guarded(async ({ base, run, token }) => {
      await run("policy", "create", "reader", "--allow", "read,list:demo/*@default/default");
      const secret = await token("reader", "reader");
      await run("create", "demo.v2.Artist", "korn", "--data", '{"name": "Korn"}');

      const page = await open("/ui/", { base });
      await enter(page, "no-such-token");
      await sees(page, "does not know this token");
      await enter(page, secret);
      await page.getByRole("button", { name: "Sign out" }).waitFor();
      await page.locator("[data-denied]").getByText("operator:read").waitFor();

      await page.goto(`${base}/ui/r/demo.v2.Artist/korn?view=edit`);
      await page.locator('[data-field="name"] input').fill("Mine");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("alert").getByText("Permission denied").first().waitFor();
      page.once("dialog", (dialog) => dialog.accept());
      for (const address of ["/ui/controllers", "/ui/regions", "/ui/plugins/demo?view=log"]) {
        await page.goto(base + address);
        await page.getByRole("alert").getByText("operator:read").first().waitFor();
      }
      await page.goto(`${base}/ui/access`);
      await page.getByRole("region", { name: "Who you are" }).getByRole("link", { name: "reader" }).first().waitFor();
      const permissions = page.getByRole("region", { name: "Permissions" });
      await permissions.getByLabel("Type").selectOption("demo.v2.Artist");
      await permissions.getByRole("button", { name: "Ask" }).click();
      await permissions.locator('[data-allowed="true"]').waitFor();
      await permissions.getByLabel("Verb").selectOption("write");
      await permissions.getByRole("button", { name: "Ask" }).click();
      await permissions.locator('[data-allowed="false"]').waitFor();
      await permissions.getByLabel("May").selectOption("token");
      await permissions.getByLabel("Accessor id").fill("bootstrap");
      await permissions.getByRole("button", { name: "Ask" }).click();
      await permissions.getByRole("alert").getByText("Permission denied").first().waitFor();

      await page.goto(`${base}/ui/r/demo.v2.Artist`);
      await page.getByRole("link", { name: "korn" }).waitFor();
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByLabel("Token", { exact: true }).waitFor();
      assert.equal(await page.getByText("korn").count(), 0);

      await enter(page, secret);
      await page.getByRole("link", { name: "korn" }).waitFor();
      await isLive(page);
      await run("token", "delete", "reader");
      await sees(page, "no longer valid");
      assert.equal(await page.getByText("korn").count(), 0);
    }), true);

  await step("session: an operator who only reads is refused each action on plugins", () =>
    guarded(async ({ server, base, run, token }) => {
      const file = path.join(work, "watcher.hcl");
      writeFileSync(file, 'operator = "read"\n');
      await run("policy", "create", "watcher", "--rules", file);
      const secret = await token("watcher", "watcher");
      for (const [name, bytes] of [["own-limits", ownLimits], ["own-limits", variant(ownLimits, "two")]]) {
        const component = path.join(work, `${name}.wasm`);
        writeFileSync(component, bytes);
        await run("plugin", "install", component);
      }
      const page = await open("/ui/plugins/own-limits", { base });
      await enter(page, secret);
      const dialog = page.getByRole("dialog");
      for (const action of ["Roll back", "Disable", "Remove"]) {
        await page.getByRole("button", { name: action, exact: true }).click();
        await dialog.getByRole("button", { name: action, exact: true }).click();
        await dialog.getByRole("alert").getByText("operator:write").waitFor();
        await page.keyboard.press("Escape");
        await dialog.waitFor({ state: "detached" });
      }
      await page.goto(`${base}/ui/plugins`);
      await page.getByRole("link", { name: "own-limits" }).waitFor();
      await drop(page, [["own-limits.wasm", ownLimits]]);
      await dialog.locator('[data-phase="refused"]').waitFor();
      await dialog.getByRole("alert").getByText("operator:write").waitFor();
      await dialog.getByRole("button", { name: "Close" }).click();
      await page.goto(`${base}/ui/access`);
      await page.getByRole("region", { name: "Tokens" }).getByRole("link", { name: "watcher" }).first().waitFor();
      const permissions = page.getByRole("region", { name: "Permissions" });
      await permissions.getByLabel("May").selectOption("token");
      await permissions.getByLabel("Accessor id").fill("bootstrap");
      await permissions.getByLabel("Type").selectOption("demo.v2.Artist");
      await permissions.getByRole("button", { name: "Ask" }).click();
      await permissions.locator('[data-allowed="true"]').waitFor();
    }), true);
}
