// Controllers, deletions, trees, regions, backups and access.
import { writeFileSync } from "node:fs";
import path from "node:path";

import { assert, sees } from "./assert.mjs";
import { beside } from "./beside.mjs";
import { copies } from "./components.mjs";

const BACKUPS_AND_REGION = `
[plugins]
bundled = ["demo"]
[backup]
schedule = "every 6h"
[region]
name = "eu"
[region.peers.us]
address = "http://127.0.0.1:1"
`;

export default async function operate(test) {
  const { step, open, mortise, work } = test;

  await step("operate: a controller with its last errors", async () => {
    const file = path.join(work, "reconcile-copy.wasm");
    writeFileSync(file, copies);
    await mortise.run(["plugin", "install", file]);
    // The copy of this thing has another owner already: its reconcile fails.
    await mortise.put("reconcile_copy/v1/copy", "clash-copy", { data: { text: "taken" } });
    await mortise.put("reconcile_copy/v1/thing", "clash", { data: { text: "Clash" } });
    const page = await open("/ui/controllers");
    await page.locator("[data-filter]").fill("reconcile");
    await page.getByRole("link", { name: "reconcile-copy/copies" }).click();
    const errors = page.getByRole("region", { name: "Last errors" });
    await errors.getByRole("link", { name: "clash", exact: true }).waitFor();
    await page.getByRole("region", { name: "Queue" }).waitFor();
    await sees(page, "mortise controllers reconcile-copy/copies");
    await errors.getByRole("link", { name: "clash", exact: true }).click();
    await page.getByRole("heading", { name: "clash" }).waitFor();
  });

  await step("operate: a deletion shows its effects, and a blocked one cannot be sent", async () => {
    await mortise.put("demo/v2/artist", "studio", { data: { name: "Studio" } });
    await mortise.put("demo/v2/album", "takes", {
      owner: await mortise.id("demo/v2/artist", "studio"),
      data: { title: "Takes" },
      metadata: { finalizers: "walk/holds" },
    });
    await mortise.put("demo/v2/artist", "guest", {
      data: { name: "Guest" },
      meta: { ownerReferences: [{ kind: "demo/Artist", name: "studio", unsetOnDelete: true }] },
    });
    const page = await open("/ui/r/demo.v2.Artist/studio?view=tree");
    const relations = page.getByRole("region", { name: "Relations" });
    await relations.getByRole("link", { name: "takes" }).waitFor();
    await relations.getByText("owner reference").waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.locator('[data-steps="ACTION_RELEASE_LATER"]').getByRole("link", { name: "guest" }).waitFor();
    await dialog.locator('[data-steps="ACTION_HANG"]').getByText("walk/holds").waitFor();
    await page.keyboard.press("Escape");
    await mortise.run(["protect", "artist", "studio"]);
    await page.getByRole("button", { name: "Delete" }).click();
    await dialog.getByText("studio is protected from deletion").waitFor();
    assert.equal(await dialog.getByRole("button", { name: "Delete", exact: true }).isDisabled(), true);
    await page.keyboard.press("Escape");
    await mortise.run(["protect", "artist", "studio", "--off"]);
    await page.getByRole("button", { name: "Delete" }).click();
    await dialog.locator('[data-steps="ACTION_RELEASE_LATER"]').waitFor();
    await dialog.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("grid").waitFor();
    await page.getByRole("link", { name: "studio" }).waitFor({ state: "detached" });
  });

  await step("operate: backups, and a peer that does not answer", async () => {
    await beside(test, { name: "operated", mode: "dev", config: BACKUPS_AND_REGION }, async (server, base) => {
      const page = await open("/ui/", { base });
      const backups = page.getByRole("region", { name: "Backups" });
      await backups.getByText("every 6h").waitFor();
      await backups.getByText(/in \d/).waitFor();
      await page.goto(`${base}/ui/regions`);
      await sees(page, "This server is in eu");
      await page.getByRole("region", { name: "Peer us" }).getByText(/failed|connecting/).first().waitFor();
    });
  }, true);

  await step("operate: access without tokens, and a draft of a policy", async () => {
    const page = await open("/ui/access");
    await page.getByRole("region", { name: "Who you are" }).getByText("access control is off").waitFor();
    const draft = page.getByRole("region", { name: "Draft of a policy" });
    await draft.locator('[data-checked="passed"]').waitFor();
    const byType = draft.getByRole("textbox", { name: "Rules by type and place" });
    await byType.fill("allow read:nosuch/Thing");
    await draft.locator(".finding.warning").getByText("nosuch").first().waitFor();
    await byType.fill("allow fly:demo/*");
    await draft.locator('[data-checked="refused"]').getByRole("alert").getByText("fly").first().waitFor();
    await byType.fill("allow everything");
    await draft.getByText("Not a rule").waitFor();
    await byType.fill("deny write:demo/Artist@default/blue:locked*");
    await draft.locator('[data-checked="passed"]').waitFor();
    await sees(page, "mortise policy create NAME --deny 'write:demo/Artist@default/blue:locked*'");
  });
}
