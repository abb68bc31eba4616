// Plugins: their log, actions on them, and faults of loads.
import { writeFileSync } from "node:fs";
import path from "node:path";

import { assert, holds, isLive, sees } from "./assert.mjs";
import { broken, copies, drop, ownLimits, variant, wasi } from "./components.mjs";

const count = (page, text) => page.getByRole("log").getByText(text, { exact: true }).count();

export default async function plugins({ step, open, mortise, work, cut }) {
  const install = async (name, bytes) => {
    const file = path.join(work, `${name}.wasm`);
    writeFileSync(file, bytes);
    await mortise.run(["plugin", "install", file]);
  };
  const print = (what) => mortise.request(`/api/wasi/v1/thing/${what}/_validate`, { method: "POST", body: { data: {} } });

  await step("plugins: a log is followed, filtered, paused, and bounded", async () => {
    await install("wasi", wasi);
    await print("print");
    const page = await open("/ui/plugins/wasi");
    await page.getByRole("button", { name: "Disable" }).waitFor();
    await page.keyboard.press("l");
    await isLive(page);
    await page.getByRole("log").getByText("a line on stderr").waitFor();
    await print("print");
    await holds(page, () => document.querySelectorAll("[data-line]").length >= 6);
    await page.getByRole("button", { name: "Pause" }).click();
    await print("print");
    await page.getByRole("status").getByText(/paused; [1-9]/).waitFor();
    assert.equal(await count(page, "a line on stderr"), 2);
    await page.getByRole("button", { name: "Continue" }).click();
    await holds(page, () => document.querySelectorAll("[data-line]").length >= 9);
    await page.locator("[data-filter]").fill("stderr");
    await holds(page, () => document.querySelectorAll("[data-line]").length === 3);
    await page.locator("[data-filter]").fill("");
    await page.getByRole("combobox", { name: "Lowest level" }).selectOption("error");
    await sees(page, "mortise plugin logs wasi --follow --level error");
    await holds(page, () => document.querySelectorAll("[data-line]").length === 0);
    await page.getByRole("combobox", { name: "Lowest level" }).selectOption("");
    await page.getByRole("log").getByText("a line on stderr").first().waitFor();
  });

  if (cut) await step("plugins: after a lost connection no line of a log comes twice", async () => {
    const page = await open("/ui/plugins/wasi?view=log");
    await isLive(page);
    await page.getByRole("log").getByText("a line on stderr").first().waitFor();
    const before = await count(page, "a line on stderr");
    const again = page.waitForRequest((request) => request.url().includes("PluginService/Logs"));
    cut();
    await print("print");
    await again;
    await holds(page, (wanted) => [...document.querySelectorAll("[data-line]")].filter((line) => line.textContent.includes("a line on stderr")).length >= wanted, before + 1);
    assert.equal(await count(page, "a line on stderr"), before + 1);
  });

  await step("plugins: a log goes on after a restart of the server", async () => {
    const page = await open("/ui/plugins/wasi?view=log");
    await isLive(page);
    await page.getByRole("log").getByText("a line on stderr").first().waitFor();
    const before = await count(page, "a line on stderr");
    await mortise.stop();
    await isLive(page, "away");
    assert.equal(await count(page, "a line on stderr"), before);
    await mortise.start();
    await isLive(page);
    await print("print");
    await holds(page, (wanted) => [...document.querySelectorAll("[data-line]")].filter((line) => line.textContent.includes("a line on stderr")).length >= wanted, before + 1);
    assert.equal(await count(page, "a line on stderr"), before + 1);
  }, true);

  await step("plugins: a flood of lines leaves the newest thousand", async () => {
    const page = await open("/ui/plugins/wasi?view=log");
    await isLive(page);
    for (let round = 0; round < 8; round += 1) await print("print-flood");
    await page.getByRole("log").getByText("flooding stdout").first().waitFor();
    await holds(page, () => document.querySelectorAll("[data-line]").length <= 1000);
    await isLive(page);
  });

  await step("plugins: disable, enable, roll back, remove with resources that finalizers hold", async () => {
    await install("reconcile-copy", copies);
    await install("reconcile-copy", variant(copies, "two"));
    await mortise.put("reconcile_copy/v1/thing", "one", { data: { text: "One" } });
    const page = await open("/ui/r/reconcile_copy.v1.Copy");
    await page.getByRole("link", { name: "one-copy" }).waitFor();
    await page.goto(page.url().replace(/\/r\/.*/, "/plugins/reconcile-copy"));
    const dialog = page.getByRole("dialog");
    const act = async (button, sentence, note) => {
      await page.getByRole("button", { name: button, exact: true }).click();
      await dialog.getByText(sentence).waitFor();
      await dialog.getByRole("button", { name: button, exact: true }).click();
      await sees(page, note);
    };
    await act("Roll back", "again, in place of version 0.1.0", "It was rolled back to version 0.1.0.");
    await act("Disable", "can still be read and deleted", "It is disabled.");
    await page.locator(".heading").getByText("Disabled").waitFor();
    await act("Enable", "serves its types again", "It is enabled.");
    await page.locator(".heading").getByText("serving").waitFor();
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await dialog.getByRole("button", { name: "Remove", exact: true }).click();
    await dialog.getByRole("link", { name: "one", exact: true }).waitFor();
    await dialog.getByText("reconcile-copy/release").first().waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    await sees(page, "It was removed.");
    await page.locator(".heading").getByText("Removed").waitFor();
  });

  await step("plugins: the story of a load that failed, also in the overview", async () => {
    await install("own-limits", ownLimits);
    const file = path.join(work, "own-limits.wasm");
    writeFileSync(file, broken(ownLimits));
    await assert.rejects(mortise.run(["plugin", "install", file]), /NotAComponent/);
    const page = await open("/ui/plugins/own-limits");
    const story = page.getByRole("region", { name: "Last failed load" });
    await story.getByText("NotAComponent").waitFor();
    await story.getByText("Compiling").waitFor();
    await story.getByText("Version 0.1.0 (359d725d072b) continues to serve.").waitFor();
    await page.goto(page.url().replace(/\/plugins.*/, "/"));
    await page.getByRole("region", { name: "Warnings" }).getByText("own-limits").waitFor();
    await install("own-limits", ownLimits);
  });

  await step("plugins: files that are none, the same component again, and a refusal by the digest", async () => {
    const page = await open("/ui/plugins");
    await drop(page, [["a.minisig", Buffer.from("x")]]);
    await page.getByRole("alert").getByText("a signature alone installs nothing").waitFor();
    await drop(page, [["a.wasm", ownLimits], ["b.wasm", ownLimits]]);
    await page.getByRole("alert").getByText("one component at a time").waitFor();
    await drop(page, [[`<img src=x onerror="window.hit = 1">.wasm`, Buffer.from("not wasm")]]);
    const dialog = page.getByRole("dialog");
    await dialog.locator('[data-phase="refused"]').waitFor();
    assert.equal(await page.evaluate(() => window.hit), undefined);
    await dialog.getByRole("button", { name: "Close" }).click();
    await drop(page, [["own-limits.wasm", ownLimits]]);
    await dialog.getByText("This component serves already").waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
  });

  await step("plugins: without a secure context the page says why it installs nothing", async () => {
    const page = await open("/ui/types");
    await page.addInitScript(() => Object.defineProperty(crypto, "subtle", { value: undefined }));
    await page.goto(page.url().replace("/types", "/plugins"));
    await page.locator("[data-insecure]").getByText("mortise plugin install FILE.wasm").waitFor();
    assert.equal(await page.getByRole("button", { name: "Install a plugin" }).count(), 0);
  });
}
