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
