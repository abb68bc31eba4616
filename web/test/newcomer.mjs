// A newcomer, without the command line: an artist by form, albums by a controller, a plugin by drag and drop, its fault, and the way back.
import { assert, sees } from "./assert.mjs";
import { beside } from "./beside.mjs";
import { broken, drop, ownLimits, variant } from "./components.mjs";

const CONFIG = '[plugins]\nbundled = ["demo", "catalog"]\n[plugin.demo.settings]\ncontroller = true\n';

export default async function newcomer(test) {
  await test.step("newcomer: an artist, its albums, a plugin, its fault, and the version before", async () => {
    await beside(test, { name: "newcomer", mode: "dev", config: CONFIG }, async (server, base) => {
      const page = await test.open("/ui/", { base });
      const menu = page.getByRole("navigation", { name: "Pages" });

      await menu.getByRole("link", { name: "Types" }).click();
      await page.getByRole("link", { name: "demo.v2.Artist", exact: true }).click();
      await page.getByRole("button", { name: "New resource" }).click();
      await page.locator("[data-name]").fill("korn");
      const field = page.locator('[data-field="name"]');
      await field.locator("input").fill("x");
      await field.locator("input").fill("");
      await field.getByText("artist.name required").waitFor();
      await field.locator("input").fill("Korn");
      await page.locator('[data-check="passed"]').waitFor();
      await page.getByRole("button", { name: "Create" }).click();
      await page.getByRole("region", { name: "Data" }).getByText("Korn").waitFor();
      await page.goto(`${base}/ui/r/demo.v2.Album`);
      await page.locator('[data-count="3"]').waitFor();

      await menu.getByRole("link", { name: "Plugins" }).click();
      await page.getByRole("button", { name: "Install a plugin" }).waitFor();
      await drop(page, [["own_limits.wasm", broken(ownLimits)]]);
      const dialog = page.getByRole("dialog");
      await dialog.locator('[data-phase="refused"]').waitFor();
      await dialog.getByRole("alert").getByText("not a WebAssembly component").waitFor();
      assert.equal(await dialog.getByRole("button", { name: "Install", exact: true }).count(), 0);
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });

      await drop(page, [["own_limits.wasm", ownLimits]]);
      await dialog.locator('[data-phase="checked"]').waitFor();
      await dialog.getByText("own_limits.v1.Thing").waitFor();
      await dialog.getByText("nothing: the plugin is new here").waitFor();
      await dialog.getByText("359d725d072b25467facd15db461857af0a3975708a1796228e4f8727deffd75").waitFor();
      await dialog.getByRole("button", { name: "Install", exact: true }).click();
      await page.getByRole("heading", { name: "own-limits" }).waitFor();
      await page.getByRole("region", { name: "State" }).getByText("Serving").waitFor();

      await page.goto(`${base}/ui/plugins`);
      await page.getByRole("link", { name: "own-limits" }).waitFor();
      await page.locator("input[type=file]").setInputFiles({ name: "own-limits.wasm", mimeType: "application/wasm", buffer: variant(ownLimits, "two") });
      await dialog.locator('[data-phase="checked"]').waitFor();
      await dialog.getByText("359d725d072b", { exact: false }).first().waitFor();
      await dialog.getByRole("button", { name: "Install", exact: true }).click();
      await page.getByRole("button", { name: "Roll back" }).waitFor();

      await page.goto(`${base}/ui/new/own_limits.v1.Thing`);
      await page.locator("[data-name]").fill("boom");
      await page.getByRole("button", { name: "Create" }).click();
      await page.getByRole("alert").getByText("used up its fuel").first().waitFor();
      page.once("dialog", (dialog) => dialog.accept());
      await page.goto(`${base}/ui/plugins/own-limits`);
      await page.locator("[data-hook]").getByText("used up its fuel").first().waitFor();
      await page.keyboard.press("l");
      await page.getByRole("log").getByText("used up its fuel").first().waitFor();
      await page.keyboard.press("d");

      await page.getByRole("button", { name: "Roll back" }).click();
      await dialog.getByText("version 0.1.0 (359d725d072b)", { exact: false }).first().waitFor();
      await dialog.getByRole("button", { name: "Roll back" }).click();
      await sees(page, "It was rolled back to version 0.1.0.");
      await page.getByRole("region", { name: "Component" }).getByText("359d725d072b25467facd15db461857af0a3975708a1796228e4f8727deffd75").waitFor();
      await page.locator(".heading").getByText("rolled back").waitFor();
    });
  }, true);
}
