// Walks through the page in Chromium, against a real server. usage: node test/run.mjs BINARY [NAME...]
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

import { Mortise } from "./mortise.mjs";
import { startProxy } from "./proxy.mjs";
import access from "./access.mjs";
import edit from "./edit.mjs";
import hostile from "./hostile.mjs";
import keyboard from "./keyboard.mjs";
import live from "./live.mjs";
import newcomer from "./newcomer.mjs";
import operate from "./operate.mjs";
import pages from "./pages.mjs";
import plugins from "./plugins.mjs";
import session from "./session.mjs";

const [binary, ...only] = process.argv.slice(2);
const executablePath = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);
if (!binary || !executablePath) throw new Error("usage: node test/run.mjs BINARY, with Chromium");

const work = mkdtempSync(path.join(os.tmpdir(), "mortise-web-"));
const folder = fileURLToPath(new URL("../../host/api/ui", import.meta.url));
const mortise = new Mortise(binary, ["dev", "--data-dir", path.join(work, "data"), "--plugin-dir", path.join(work, "plugins")]);
/** `self`: the server under test serves the page itself; an address: a server that runs already. */
const served = process.env.MORTISE_UI_URL;
let proxy;
let browser;
let failures = 0;
let count = 0;

/** Everything that a test needs. */
const test = {
  mortise,
  binary,
  work,
  folder,
  url: "",
  /** The server cannot be restarted, and has no second one beside it. */
  isForeign: false,
  browser: undefined,
  /** Breaks the connections of the page; only with a proxy. */
  cut: undefined,
  /** Faults that the page reported: refused by the policy, thrown, or written to the console. */
  faults: [],

  /** A page in a context of its own. */
  async open(address = "/ui/", options = {}) {
    const context = await test.browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce", ...options });
    context.setDefaultTimeout(20_000);
    const page = await context.newPage();
    page.on("pageerror", (error) => test.faults.push(`thrown: ${error.stack ?? error}`));
    page.on("console", (message) => {
      // A refused request is in the console, too: tests ask for it, and the page shows it.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) test.faults.push(message.text());
    });
    await page.goto((options.base ?? test.url) + address);
    return page;
  },

  /** A walk. `needsServer`: it starts or stops servers. */
  async step(name, act, needsServer = false) {
    if (needsServer && test.isForeign) return console.log(`left out: ${name}: the server at MORTISE_UI_URL stays as it is`);
    if (only.length > 0 && !only.some((word) => name.includes(word))) return;
    const began = Date.now();
    test.faults.length = 0;
    count += 1;
    try {
      await act();
      if (test.faults.length > 0) throw new Error(`the page reported: ${test.faults.join("; ")}`);
      console.log(`ok    ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
    } catch (error) {
      failures += 1;
      console.log(`FAIL  ${name}: ${error instanceof Error ? error.stack : error}`);
      for (const page of test.browser.contexts().flatMap((context) => context.pages())) {
        const text = await page.evaluate(() => document.body.innerText).catch(() => "");
        console.log(`      ${page.url()} shows: ${text.replace(/\s+/g, " ").slice(0, 600)}`);
      }
    } finally {
      for (const context of test.browser.contexts()) await context.close();
    }
  },
};

try {
  if (served && served !== "self") {
    // The server runs elsewhere: the walks write to it, and leave it running.
    mortise.http = new URL(served).host;
    test.url = new URL(served).origin;
    test.isForeign = true;
  } else {
    await mortise.start();
    proxy = served === "self" ? undefined : await startProxy(folder, () => mortise.http);
    test.cut = proxy?.cut;
    test.url = proxy?.url ?? `http://${mortise.http}`;
  }
  browser = await chromium.launch({ executablePath, chromiumSandbox: false, args: ["--disable-dev-shm-usage"] });
  test.browser = browser;
  for (const suite of [pages, edit, live, newcomer, plugins, operate, hostile, keyboard, access, session]) await suite(test);
} finally {
  await browser?.close();
  await proxy?.stop();
  await mortise.stop();
  rmSync(work, { recursive: true, force: true });
}
console.log(`${count - failures} of ${count} walks hold`);
process.exitCode = failures > 0 ? 1 : 0;
