// Every page shows what the server has.
import { assert, isLive, sees } from "./assert.mjs";

/** Resources that the walks show. */
export async function prepare({ mortise }) {
  await mortise.put("demo/v2/artist", "korn", {
    data: { name: "Korn", genre: "GENRE_METAL" },
    meta: { labels: { env: "prod" } },
  });
  await mortise.put("demo/v2/artist", "abba", { data: { name: "ABBA" } });
  await mortise.put("demo/v2/album", "issues", {
    owner: await mortise.id("demo/v2/artist", "korn"),
    data: { title: "Issues", yearOfRelease: 1999 },
  });
  const workload = (host) => ({ data: { addresses: [{ host }], ports: [{ name: "http", port: 8080 }] }, metadata: { app: "web" } });
  await mortise.put("catalog/v1/workload", "web-1", workload("127.0.0.2"));
  await mortise.put("catalog/v1/workload", "web-2", workload("127.0.0.3"));
  await mortise.put("catalog/v1/service", "web", { data: { selector: { prefixes: ["web-"] }, ports: [{ name: "http", port: 80 }] } });
}

export default async function pages(test) {
  const { step, open } = test;
  await prepare(test);

  await step("pages: overview", async () => {
    const page = await open("/ui/");
    await page.locator('[data-tile="health"]').getByText("ready").waitFor();
    await page.locator('[data-tile="plugins"]').getByText("all serve").waitFor();
    await sees(page, "Changes stored");
    await isLive(page);
    await page.locator('[data-tile="plugins"]').click();
    await page.getByRole("link", { name: "demo", exact: true }).waitFor();
  });

  await step("pages: types and schema", async () => {
    const page = await open("/ui/types");
    await page.locator("[data-filter]").fill("artist");
    await page.getByRole("link", { name: "Schema of demo.v2.Artist" }).click();
    await sees(page, "genre");
    await sees(page, "GENRE_METAL");
    await sees(page, "mortise explain demo.v2.Artist");
  });

  await step("pages: resources, filter, selector", async () => {
    const page = await open("/ui/r/demo.v2.Artist");
    await isLive(page);
    await page.getByRole("link", { name: "korn" }).waitFor();
    await page.getByRole("link", { name: "abba" }).waitFor();
    await page.locator("[data-filter]").fill("metal");
    await page.getByRole("link", { name: "abba" }).waitFor({ state: "detached" });
    await page.locator("[data-filter]").fill("");
    await page.getByRole("textbox", { name: "Selector" }).fill("env=prod");
    await page.keyboard.press("Enter");
    await page.locator('[data-count="1"]').waitFor();
    await sees(page, "-l env=prod");
    await page.getByRole("textbox", { name: "Selector" }).fill("");
    await page.getByRole("combobox", { name: "Filter of the server" }).fill("data.nonsense = 1");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("nonsense").first().waitFor();
  });

  await step("pages: one resource, YAML, tree", async () => {
    const page = await open("/ui/r/demo.v2.Artist/korn");
    await page.getByRole("region", { name: "Data" }).getByText("GENRE_METAL").waitFor();
    await page.locator(".chip").getByText("env").waitFor();
    await page.getByRole("link", { name: "YAML", exact: true }).click();
    await page.locator("pre").getByText("genre: GENRE_METAL").waitFor();
    await page.getByRole("link", { name: "Tree", exact: true }).click();
    await page.getByRole("link", { name: "issues" }).click();
    await page.getByRole("region", { name: "About" }).getByRole("link", { name: "korn" }).waitFor();
  });

  await step("pages: plugins and a plugin", async () => {
    const page = await open("/ui/plugins");
    await page.getByRole("link", { name: "demo", exact: true }).click();
    await page.getByRole("region", { name: "Limits" }).getByText("MiB").first().waitFor();
    await page.getByRole("region", { name: "Hooks" }).getByText("healthy").first().waitFor();
    await sees(page, "mortise plugin inspect demo");
    await page.getByRole("link", { name: "Log", exact: true }).click();
    await sees(page, "mortise plugin logs demo --follow");
    await isLive(page);
  });

  await step("pages: controllers", async () => {
    const page = await open("/ui/controllers");
    await page.getByRole("cell").getByText("running").first().waitFor();
    await page.getByRole("link", { name: "ownership" }).click();
    await sees(page, "of the server itself");
    await sees(page, "mortise controllers ownership");
    await page.goto(`${test.url}/ui/controllers/no%2Fsuch`);
    await sees(page, "no controller of this name");
  });

  await step("pages: services and a service", async () => {
    const page = await open("/ui/services");
    await page.getByRole("link", { name: "web", exact: true }).click();
    await page.getByRole("region", { name: "Endpoints" }).getByText("127.0.0.3").waitFor();
    await sees(page, "2 of 2 passing");
  });

  await step("pages: query with its plan", async () => {
    const page = await open("/ui/query");
    await page.getByLabel("Type").selectOption("demo.v2.Artist");
    const filter = page.locator("[data-filter]");
    // Offers follow a key that is pressed once the schema of the type is there.
    const offer = page.getByRole("option", { name: "data.genre" });
    for (let tries = 0; tries < 40 && !(await offer.isVisible()); tries++) {
      await filter.fill("data.gen");
      await offer.waitFor({ timeout: 500 }).catch(() => undefined);
    }
    await offer.waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.keyboard.type(' = "GENRE_METAL"');
    await page.getByRole("button", { name: "Ask" }).click();
    await page.getByRole("region", { name: "Answer" }).getByRole("link", { name: "korn" }).waitFor();
    await page.getByRole("region", { name: "Plan" }).locator("dt").first().waitFor();
    assert.ok(new URL(page.url()).searchParams.get("filter"), "the question is in the address");
    await page.locator("[data-filter]").fill("data.genre =");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").waitFor();
  });

  await step("pages: regions, access, and an address without a page", async () => {
    const page = await open("/ui/regions");
    await sees(page, "This server has no peers");
    await page.goto(`${test.url}/ui/access`);
    await page.getByRole("region", { name: "Permissions" }).getByRole("button", { name: "Ask" }).click();
    await page.locator('[data-allowed="true"]').waitFor();
    await page.goto(`${test.url}/ui/plugins/missing`);
    await sees(page, "no plugin of this name");
    await page.goto(`${test.url}/ui/nonsense`);
    await sees(page, "No such page");
    await page.goto(`${test.url}/ui/r/demo.v2.Artist/missing`);
    await sees(page, "No such resource");
    await page.goto(`${test.url}/ui/r/demo.v9.Nothing`);
    await page.getByRole("alert").waitFor();
  });

  await step("pages: another namespace", async () => {
    await test.mortise.put("tenancy/v2beta1/namespace", "blue", { data: {} });
    await test.mortise.put("demo/v2/artist", "miles", { data: { name: "Miles", genre: "GENRE_JAZZ" } }, "?namespace=blue");
    const page = await open("/ui/r/demo.v2.Artist");
    await page.getByRole("link", { name: "korn" }).waitFor();
    await page.getByRole("option", { name: "blue" }).waitFor({ state: "attached" });
    await page.getByRole("combobox", { name: "Namespace" }).selectOption("blue");
    await page.getByRole("link", { name: "miles" }).waitFor();
    await page.getByRole("link", { name: "korn" }).waitFor({ state: "detached" });
    await page.getByRole("combobox", { name: "Namespace" }).selectOption("*");
    await page.getByRole("link", { name: "korn" }).waitFor();
    await page.getByRole("link", { name: "miles" }).click();
    await page.getByRole("region", { name: "About" }).getByText("default / blue").waitFor();
  });

  await step("pages: empty places name the next command", async () => {
    const page = await open("/ui/r/demo.v2.Album?namespace=blue");
    await sees(page, "mortise create demo.v2.Album NAME -n blue");
  });
}
