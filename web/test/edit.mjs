// Writes: by form, by text, with findings at their fields, with a conflict, and a deletion.
import { assert, sees } from "./assert.mjs";

export default async function edit({ step, open, mortise }) {
  await step("edit: a new artist by form; a wrong value at its field", async () => {
    const page = await open("/ui/new/demo.v2.Artist");
    await page.locator("[data-name]").fill("portishead");
    const name = page.locator('[data-field="name"] input');
    await name.fill("x");
    await name.fill("");
    await page.locator('[data-field="name"]').getByText("artist.name required").waitFor();
    assert.equal(await name.getAttribute("aria-invalid"), "true");
    await name.fill("Portishead");
    await page.locator('[data-check="passed"]').waitFor();
    await page.locator('[data-field="genre"] select').selectOption("GENRE_POP");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("region", { name: "Data" }).getByText("GENRE_POP").waitFor();
    assert.equal((await mortise.request("/api/demo/v2/artist/portishead")).data.name, "Portishead");
  });

  await step("edit: a map, and a text in place of a number", async () => {
    const page = await open("/ui/r/demo.v2.Artist/portishead?view=edit");
    const members = page.locator('[data-field="groupMembers"]');
    await members.getByRole("button", { name: "Add", exact: false }).first().click();
    await members.getByLabel("Key for groupMembers").fill("voice");
    await page.keyboard.press("Enter");
    await members.locator('[data-field="voice"] input').fill("Beth");
    await page.locator('[data-check="passed"]').waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await sees(page, "Saved as version");
    assert.equal((await mortise.request("/api/demo/v2/artist/portishead")).data.groupMembers.voice, "Beth");
    await page.goto(page.url().replace(/\/r\/.*/, "/r/demo.v2.Album/issues?view=edit"));
    await page.locator('[data-field="yearOfRelease"] input').fill("soon");
    await page.locator('[data-check="refused"]').waitFor();
  });

  await step("edit: a warning at its field", async () => {
    const page = await open("/ui/r/demo.v2.Album/issues?view=edit");
    await page.locator('[data-field="yearOfRelease"] input').fill("1800");
    await page.locator('[data-field="yearOfRelease"]').getByText("before there were recordings").waitFor();
    await page.locator('[data-check="passed"]').waitFor();
  });

  await step("edit: as YAML, with a finding at its line, and back to the form", async () => {
    const page = await open("/ui/r/demo.v2.Artist/portishead?view=edit");
    await page.getByRole("button", { name: "YAML", exact: true }).click();
    const text = page.locator("[data-editor] .cm-content");
    await text.waitFor();
    // Lines are typed: the editor indents them.
    const write = async (...lines) => {
      await text.press("Control+a");
      await page.keyboard.press("Delete");
      for (const [at, line] of lines.entries()) {
        if (at > 0) await page.keyboard.press("Enter");
        await page.keyboard.type(line);
      }
    };
    await write("data:", "name: Portishead", "gonre: GENRE_POP");
    await page.locator('[data-check="refused"]').waitFor();
    await page.locator("[data-editor] .cm-lint-marker-error").waitFor();
    await write("data:", "name: Dummy", "genre: GENRE_J");
    await page.locator("[data-editor]").getByRole("option", { name: "GENRE_JAZZ" }).click();
    await page.locator('[data-check="passed"]').waitFor();
    await page.getByRole("button", { name: "Form", exact: true }).click();
    assert.equal(await page.locator('[data-field="name"] input').inputValue(), "Dummy");
    await page.getByRole("button", { name: "JSON", exact: true }).click();
    await page.locator("[data-editor]").getByText("GENRE_JAZZ").waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await sees(page, "Saved as version");
    assert.equal((await mortise.request("/api/demo/v2/artist/portishead")).data.name, "Dummy");
  });

  await step("edit: a conflict, side by side", async () => {
    const page = await open("/ui/r/demo.v2.Artist/portishead?view=edit");
    await page.locator('[data-field="name"] input').fill("Mine");
    await mortise.put("demo/v2/artist", "portishead", { data: { name: "Theirs" } });
    await sees(page, "has changed since you began");
    await page.getByRole("button", { name: "Save" }).click();
    await sees(page, "Another write came first");
    await page.locator("tr.changed").getByText("Theirs").waitFor();
    await page.locator("tr.changed").getByText("Mine").waitFor();
    assert.equal((await mortise.request("/api/demo/v2/artist/portishead")).data.name, "Theirs");
    await page.getByRole("button", { name: "Replace it with the draft" }).click();
    await sees(page, "Saved as version");
    assert.equal((await mortise.request("/api/demo/v2/artist/portishead")).data.name, "Mine");
  });

  await step("edit: a creation does not replace", async () => {
    const page = await open("/ui/new/demo.v2.Artist");
    await page.locator("[data-name]").fill("portishead");
    await page.locator('[data-field="name"] input').fill("Another");
    await page.getByRole("button", { name: "Create" }).click();
    await sees(page, "Another write came first");
    assert.equal((await mortise.request("/api/demo/v2/artist/portishead")).data.name, "Mine");
  });

  await step("edit: a deletion names the owned resources", async () => {
    await mortise.put("demo/v2/album", "dummy", {
      owner: await mortise.id("demo/v2/artist", "portishead"),
      data: { title: "Dummy" },
    });
    const page = await open("/ui/r/demo.v2.Artist/portishead");
    await page.getByRole("button", { name: "Delete" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("link", { name: "dummy" }).waitFor();
    await dialog.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("grid").waitFor();
    await page.getByRole("link", { name: "portishead" }).waitFor({ state: "detached" });
  });
}
