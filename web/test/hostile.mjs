// Values that try to leave their place: markup, marks of direction, control characters, very long texts.
import { assert, isLive } from "./assert.mjs";

const MARKUP = `<img src=x onerror="window.hit = 1"><script>window.hit = 1</script>{{7*7}}`;
const TURNED = "\u202egnp.exe\u202c \u2066left\u2069 \u05d0\u05d1\u05d2";

const isNarrow = (page) => page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth);

export default async function hostile({ step, open, mortise }) {
  await mortise.put("demo/v2/artist", "hostile", {
    data: { name: `${TURNED}\u0007 ${MARKUP}`, groupMembers: { [MARKUP]: TURNED, [TURNED]: "x".repeat(4000) } },
    metadata: { note: MARKUP },
    meta: { labels: { k: TURNED }, tags: ["<b>bold</b>"] },
  });
  await mortise.put("demo/v2/artist", "large", { data: { name: "Large", groupMembers: { story: "word ".repeat(180_000) } } });

  for (const width of [1440, 360]) {
    await step(`hostile: values are texts at ${width} px`, async () => {
      const page = await open("/ui/r/demo.v2.Artist", { viewport: { width, height: 800 } });
      await isLive(page);
      await page.getByRole("link", { name: "hostile" }).click();
      for (const view of ["", "yaml", "edit", "tree"]) {
        await page.goto(page.url().replace(/(\/hostile).*/, `$1${view ? `?view=${view}` : ""}`));
        await page.getByRole("heading", { name: "hostile" }).waitFor();
        await isLive(page);
        assert.equal(await page.evaluate(() => window.hit), undefined);
        assert.equal(await page.locator("main img, main script").count(), 0);
        assert.ok(await isNarrow(page), `the view ${view || "describe"} is as wide as the window`);
      }
    });
  }

  await step("hostile: lines of a log, errors of controllers, and faults of plugins are texts", async () => {
    const hostile = `${TURNED}\u0007 ${MARKUP} ${"long ".repeat(2000)}${"x".repeat(3000)}`;
    const line = (level) => JSON.stringify({ plugin: "demo", at: `2026-01-01T00:00:0${level}Z`, level, hook: "validate", message: hostile, fields: { [MARKUP]: TURNED } });
    const id = { type: { group: "demo", groupVersion: "v2", kind: "Artist" }, tenancy: { partition: "default", namespace: "default" }, name: MARKUP };
    const error = { id, message: hostile, count: "3", first: "2026-01-01T00:00:00Z", last: "2026-01-01T00:00:01Z" };
    const answers = {
      "PluginService/Inspect": { stage: hostile, draining: 1, lastFailure: { reason: MARKUP, message: hostile, stage: TURNED }, hooks: [{ name: MARKUP, state: "Quarantined", faults: "9", lastFault: hostile, retryIn: "12s" }] },
      "ControllerService/List": { controllers: [{ name: MARKUP, state: "BackingOff", reason: hostile, lastErrors: [error], putOff: [error], setAsideNow: "1", setAside: [{ id, retryIn: "9s" }] }] },
      "RegionService/Status": { region: TURNED, peers: [{ name: MARKUP, address: TURNED, state: "PEER_STATE_STOPPED", stopped: hostile, lastError: hostile, types: [{ type: id.type, heldBack: [{ id, reason: "HELD_BACK_REASON_CONFLICT", detail: hostile }] }] }] },
      "AuthService/WhoAmI": { name: hostile, enforced: true, accessorId: TURNED, policies: [MARKUP], policyFaults: [hostile] },
      "ServerService/Status": { warnings: [hostile], scheduledBackups: { schedule: TURNED, dir: MARKUP, fault: hostile } },
      "ServerService/ListMembers": { members: [{ id: MARKUP, version: TURNED }, { id: "two", holds: [MARKUP] }] },
      "OwnershipService/PlanDelete": { steps: [{ action: "ACTION_BLOCK", id, field: MARKUP, reason: hostile, because: id }], isBlocked: true, isCut: true, cut: hostile, hidden: 2 },
      "OwnershipService/GetTree": { up: [{ dependent: { ...id, name: "hostile" }, target: id, field: MARKUP }], hidden: 1 },
    };
    const walks = [
      ["/ui/", (page) => page.getByRole("region", { name: "Members" }).waitFor()],
      ["/ui/plugins/demo", (page) => page.getByText("tried again in 12s").waitFor()],
      ["/ui/plugins/demo?view=log", (page) => page.locator("[data-line]").nth(4).waitFor()],
      [`/ui/controllers`, (page) => page.getByText("backing off").waitFor()],
      [`/ui/controllers/${encodeURIComponent(MARKUP)}`, (page) => page.getByText("tried again in 9s").waitFor()],
      ["/ui/regions", (page) => page.getByText("another resource has its name here").waitFor()],
      ["/ui/access", (page) => page.getByText("A policy is faulty").waitFor()],
      ["/ui/r/demo.v2.Artist/hostile?view=tree", async (page) => {
        await page.getByText("link to resources that you may not read").waitFor();
        await page.getByRole("button", { name: "Delete" }).click();
        await page.getByText("The plan is not complete").waitFor();
      }],
    ];
    for (const width of [1440, 360]) {
      const page = await open("/ui/types", { viewport: { width, height: 800 } });
      await page.route(/\/rpc\//, (route) => {
        const method = route.request().url().replace(/^.*\/rpc\/mortise\.v1\./, "");
        if (method === "PluginService/Logs") {
          const body = [1, 2, 3, 4, 5].map((level) => `event: message\ndata: ${line(level)}\n\n`).join("");
          return route.fulfill({ contentType: "text/event-stream", body });
        }
        return answers[method] ? route.fulfill({ json: answers[method] }) : route.continue();
      });
      for (const [address, sign] of walks) {
        await page.goto(new URL(address, page.url()).href);
        await sign(page);
        assert.equal(await page.evaluate(() => window.hit), undefined);
        assert.equal(await page.locator("main img, main script, main b").count(), 0);
        assert.ok(await isNarrow(page), `${address} is as wide as the window of ${width} px`);
      }
    }
  });

  await step("hostile: a text of a megabyte is cut, and shown on request", async () => {
    const page = await open("/ui/r/demo.v2.Artist/large");
    await page.getByRole("button", { name: /Show more \(\d/ }).first().click();
    await page.getByText("Edit").first().waitFor();
    assert.ok((await page.evaluate(() => document.body.innerText.length)) < 100_000);
    await page.goto(page.url() + "?view=edit");
    await page.getByText("Edit it as YAML or JSON").waitFor();
    await page.getByRole("button", { name: "YAML", exact: true }).click();
    await page.locator("[data-editor] .cm-content").waitFor();
  });
}
