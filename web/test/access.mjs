// axe on every page, in both colour schemes, at three widths.
import { AxeBuilder } from "@axe-core/playwright";

import { assert } from "./assert.mjs";
import { drop, ownLimits, variant } from "./components.mjs";

const PAGES = [
  ["/ui/", '[data-tile="plugins"] .value'],
  ["/ui/types", "td a"],
  ["/ui/types/demo.v2.Artist", ".docs li"],
  ["/ui/r/demo.v2.Artist", ".grid .row"],
  ["/ui/r/demo.v2.Artist/korn", "[data-version]"],
  ["/ui/r/demo.v2.Artist/korn?view=edit", "[data-field]"],
  ["/ui/r/demo.v2.Artist/korn?view=yaml", "pre"],
  ["/ui/r/demo.v2.Artist/korn?view=tree", ".tree a"],
  ["/ui/new/catalog.v1.Workload", "[data-field]"],
  ["/ui/plugins", "td a"],
  ["/ui/plugins/own-limits", "[data-hook]"],
  ["/ui/plugins/wasi?view=log", "[data-line]"],
  ["/ui/controllers", "td a"],
  ["/ui/controllers/reconcile-copy%2Fcopies", "td a"],
  ["/ui/access", '[data-checked="passed"]'],
  ["/ui/services", "td a"],
  ["/ui/services/web", "td"],
  ["/ui/query?type=demo.v2.Artist", "td a"],
  ["/ui/regions", ".empty"],
  ["/ui/nonsense", "h1"],
];

/** Dialogs, each with the page that it opens on. */
const DIALOGS = [
  ["/ui/r/demo.v2.Artist/korn", async (page) => {
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").locator("[data-steps]").first().waitFor();
  }],
  ["/ui/plugins/own-limits", async (page) => {
    await page.getByRole("button", { name: "Disable" }).click();
    await page.getByRole("dialog").waitFor();
  }],
  ["/ui/plugins", async (page) => {
    await page.getByRole("link", { name: "own-limits" }).waitFor();
    await drop(page, [["own-limits.wasm", variant(ownLimits, "three")]]);
    await page.locator('[data-phase="checked"]').waitFor();
  }],
];

export default async function access({ step, open, url }) {
  for (const colorScheme of ["dark", "light"]) {
    for (const width of [1440, 768, 360]) {
      await step(`access: axe on every page, ${colorScheme}, ${width} px`, async () => {
        const page = await open("/ui/", { colorScheme, viewport: { width, height: 800 } });
        const wrong = [];
        const look = async (address) => {
          // In the mode of old browsers axe opens no second page for each answer. The colours alone differ between the schemes.
          const builder = new AxeBuilder({ page }).setLegacyMode();
          const { violations } = await (colorScheme === "dark" ? builder : builder.withRules(["color-contrast"])).analyze();
          for (const violation of violations) {
            wrong.push(`${address}: ${violation.id}: ${violation.nodes.map((node) => `${node.target} ${node.any[0]?.message ?? ""}`).slice(0, 3).join(" | ")}`);
          }
          const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          if (tooWide > 0) wrong.push(`${address}: ${tooWide} px wider than the window`);
        };
        for (const [address, sign] of PAGES) {
          await page.goto(url + address);
          await page.locator(sign).first().waitFor();
          await look(address);
        }
        for (const [address, open] of DIALOGS) {
          await page.goto(url + address);
          await open(page);
          await look(address);
        }
        assert.deepEqual(wrong, []);
      });
    }
  }
}
