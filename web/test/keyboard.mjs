// The whole page without a mouse.
import { assert, holds, isLive } from "./assert.mjs";

export default async function keyboard({ step, open }) {
  await step("keyboard: go to a type, choose a row, describe, YAML, edit, and back", async () => {
    const page = await open("/ui/");
    await page.getByRole("navigation", { name: "Pages" }).waitFor();
    await page.locator('[data-tile="health"]').waitFor();
    await page.keyboard.press(":");
    await page.getByRole("combobox", { name: "Page, type" }).waitFor();
    await page.getByRole("dialog").getByRole("option").first().waitFor();
    await page.keyboard.type("demo.v2.artist");
    await page.getByRole("dialog").getByRole("option", { name: "demo.v2.Artist" }).first().waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("grid").waitFor();
    await isLive(page);
    await page.getByRole("link", { name: "abba" }).waitFor();
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement?.hasAttribute("data-filter")), true);
    await page.keyboard.type("korn");
    await page.getByRole("link", { name: "abba" }).waitFor({ state: "detached" });
    await page.keyboard.press("Escape");
    assert.equal(await page.evaluate(() => document.activeElement?.className), "grid");
    await page.keyboard.press("j");
    await page.locator('[role="row"][aria-selected="true"]').waitFor();
    await page.keyboard.press("y");
    await page.locator("pre").getByText("name: Korn").waitFor();
    await page.keyboard.press("e");
    await page.locator('[data-field="name"] input').waitFor();
    await page.keyboard.press("d");
    await page.getByRole("region", { name: "About" }).waitFor();
    await page.keyboard.press("t");
    await page.getByRole("region", { name: "Relations" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("grid").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "Types", exact: true }).waitFor();
  });

  await step("keyboard: a plugin, its log, and an action that is given up", async () => {
    const page = await open("/ui/");
    await page.locator('[data-tile="health"]').waitFor();
    await page.keyboard.press(":");
    await page.getByRole("combobox", { name: "Page, type" }).waitFor();
    await page.keyboard.type("plugins");
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "demo", exact: true }).waitFor();
    await page.getByRole("button", { name: "Install a plugin" }).focus();
    // The window for files is the browser's: the walk looks at the request for it.
    await page.evaluate(() => document.querySelector("input[type=file]").addEventListener("click", (event) => (event.preventDefault(), (window.asked_ = true))));
    await page.keyboard.press("Enter");
    await holds(page, () => window.asked_);
    await page.getByRole("link", { name: "demo", exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Disable" }).waitFor();
    await page.keyboard.press("l");
    await page.getByRole("log").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("nothing has this");
    await page.keyboard.press("Escape");
    await page.keyboard.press("d");
    await page.getByRole("region", { name: "Limits" }).waitFor();
    await page.getByRole("button", { name: "Disable" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Disable demo?" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Disable");
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "Plugins", exact: true }).waitFor();
  });

  await step("keyboard: help, and the focus comes back", async () => {
    const page = await open("/ui/types");
    await page.getByRole("link", { name: "demo.v2.Artist", exact: true }).focus();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), "demo.v2.Artist");
  });

  await step("keyboard: every stop of the Tab key is visible", async () => {
    const page = await open("/ui/r/demo.v2.Artist");
    await isLive(page);
    for (let stop = 0; stop < 24; stop += 1) {
      await page.keyboard.press("Tab");
      const seen = await page.evaluate(() => {
        const element = document.activeElement;
        if (!element || element === document.body) return "end";
        const box = element.getBoundingClientRect();
        const style = getComputedStyle(element);
        const isInside = box.width > 0 && box.bottom > 0 && box.top < innerHeight;
        return isInside && style.outlineStyle !== "none" ? "seen" : `hidden: ${element.outerHTML.slice(0, 120)}`;
      });
      if (seen === "end") break;
      assert.equal(seen, "seen");
    }
  });
}
