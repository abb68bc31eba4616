// The stream: changes, bursts, many rows, and a server that restarts.
import { assert, holds, isLive, sees } from "./assert.mjs";

const ROWS = Number(process.env.MORTISE_UI_ROWS ?? 2_000);

export default async function live({ step, open, mortise }) {
  await step("live: changes appear without a reload", async () => {
    const page = await open("/ui/r/demo.v2.Artist");
    await isLive(page);
    await mortise.put("demo/v2/artist", "live-1", { data: { name: "One" } });
    await page.getByRole("link", { name: "live-1" }).waitFor();
    await mortise.put("demo/v2/artist", "live-1", { data: { name: "Uno" } });
    await sees(page, "Uno", ".grid");
    await mortise.request("/api/demo/v2/artist/live-1", { method: "DELETE" });
    await page.getByRole("link", { name: "live-1" }).waitFor({ state: "detached" });
  });

  await step("live: one stream for a page", async () => {
    const page = await open("/ui/types");
    const streams = new Set();
    page.on("request", (request) => request.url().includes("watch=") && streams.add(request));
    page.on("requestfailed", (request) => streams.delete(request));
    page.on("requestfinished", (request) => streams.delete(request));
    await page.getByRole("link", { name: "Overview" }).click();
    await isLive(page);
    await page.getByRole("link", { name: "Types" }).first().click();
    await page.getByRole("link", { name: "demo.v2.Artist", exact: true }).click();
    await isLive(page);
    await page.getByRole("link", { name: "korn" }).click();
    await page.getByRole("region", { name: "About" }).waitFor();
    assert.deepEqual([...streams].map((request) => request.url().includes("id.name")), [true]);
  });

  await step("live: the server restarts amid a watch, and the watch resumes", async () => {
    const page = await open("/ui/r/demo.v2.Artist");
    await isLive(page);
    const resumed = page.waitForRequest((request) => request.url().includes("watch=") && Boolean(request.headers()["last-event-id"]));
    await mortise.stop();
    await isLive(page, "away");
    await page.getByRole("link", { name: "korn" }).waitFor();
    await mortise.start();
    await mortise.put("demo/v2/artist", "after-restart", { data: { name: "Later" } });
    await resumed;
    await isLive(page);
    await page.getByRole("link", { name: "after-restart" }).waitFor();
    await mortise.request("/api/demo/v2/artist/after-restart", { method: "DELETE" });
    await page.getByRole("link", { name: "after-restart" }).waitFor({ state: "detached" });
  }, true);

  await step(`live: ${ROWS} rows and a burst of changes`, async () => {
    await mortise.put("tenancy/v2beta1/namespace", "many", { data: {} });
    const names = Array.from({ length: ROWS }, (_, at) => `artist-${String(at).padStart(5, "0")}`);
    const put = (name, value) => mortise.put("demo/v2/artist", name, { data: { name: value } }, "?namespace=many");
    const waiting = [...names];
    await Promise.all(
      Array.from({ length: 32 }, async () => {
        for (let name = waiting.pop(); name; name = waiting.pop()) await put(name, name);
      }),
    );
    const page = await open("/ui/r/demo.v2.Artist?namespace=many");
    await page.locator(`[data-count="${ROWS}"]`).waitFor();
    await isLive(page);
    // Frames are counted while the table scrolls and changes arrive.
    await page.evaluate(() => {
      window.frames_ = [];
      let last = performance.now();
      const turn = (now) => {
        window.frames_.push(now - last);
        last = now;
        document.querySelector(".grid").scrollTop += 170;
        window.turn_ = requestAnimationFrame(turn);
      };
      window.turn_ = requestAnimationFrame(turn);
    });
    for (let round = 0; round < 3; round += 1) await Promise.all(names.slice(0, 100).map((name) => put(name, `Burst ${round}`)));
    await page.evaluate(() => cancelAnimationFrame(window.turn_));
    const frames = (await page.evaluate(() => window.frames_)).sort((a, b) => a - b);
    const at = (share) => frames[Math.min(frames.length - 1, Math.floor(frames.length * share))]?.toFixed(1);
    console.log(`      ${frames.length} frames: median ${at(0.5)} ms, 95% ${at(0.95)} ms, longest ${at(1)} ms`);
    assert.ok(Number(at(0.5)) < 50, "the page draws while it scrolls and changes arrive");
    await page.locator(".grid").press("End");
    await page.getByRole("link", { name: names.at(-1) }).waitFor();
    await page.locator(".grid").press("Home");
    await sees(page, "Burst 2", ".grid");
    await holds(page, () => document.querySelectorAll(".grid .row").length < 80);
    await page.locator("[data-filter]").fill("artist-00042");
    await holds(page, () => document.querySelectorAll(".grid .row").length === 1);
  });
}
