// axe on every page, in both colour schemes, and at 360 px.
import { AxeBuilder } from "@axe-core/playwright";

import { assert } from "./assert.mjs";

const PAGES = [
  ["/ui/", '[data-tile="plugins"] .value'],
  ["/ui/types", "td a"],
  ["/ui/types/demo.v2.Artist", ".docs li"],
  ["/ui/r/demo.v2.Artist", ".grid .row"],
  ["/ui/r/demo.v2.Artist/korn", "[data-version]"],
  ["/ui/r/demo.v2.Artist/korn?view=edit", "[data-field]"],
  ["/ui/r/demo.v2.Artist/korn?view=yaml", "pre"],
  ["/ui/r/demo.v2.Artist/korn?view=tree", ".tree .tree a"],
  ["/ui/new/catalog.v1.Workload", "[data-field]"],
  ["/ui/plugins", "td a"],
  ["/ui/plugins/demo", "td .badge"],
  ["/ui/controllers", "td"],
  ["/ui/services", "td a"],
  ["/ui/services/web", "td"],
  ["/ui/query?type=demo.v2.Artist", "td a"],
  ["/ui/regions", ".empty"],
  ["/ui/nonsense", "h1"],
];

export default async function access({ step, open, url }) {
  for (const colorScheme of ["dark", "light"]) {
    for (const width of [1440, 360]) {
      await step(`access: axe on every page, ${colorScheme}, ${width} px`, async () => {
        const page = await open("/ui/", { colorScheme, viewport: { width, height: 800 } });
        const wrong = [];
        for (const [address, sign] of PAGES) {
          await page.goto(url + address);
          await page.locator(sign).first().waitFor();
          // In the mode of old browsers axe opens no second page for each answer. The colours alone differ between the schemes.
          const builder = new AxeBuilder({ page }).setLegacyMode();
          const { violations } = await (colorScheme === "dark" ? builder : builder.withRules(["color-contrast"])).analyze();
          for (const violation of violations) {
            wrong.push(`${address}: ${violation.id}: ${violation.nodes.map((node) => `${node.target} ${node.any[0]?.message ?? ""}`).slice(0, 3).join(" | ")}`);
          }
          const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          if (tooWide > 0) wrong.push(`${address}: ${tooWide} px wider than the window`);
        }
        assert.deepEqual(wrong, []);
      });
    }
  }
}
