// Components to install: those of the first release, which are in the repository, and variants of their bytes.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const read = (name) => readFileSync(fileURLToPath(new URL(`../../tests/formats/v0.1.0-${name}.wasm`, import.meta.url)));

/** Plugin `own-limits`: a resource called `boom` uses up its fuel. */
export const ownLimits = read("sdk");
/** Plugin `wasi`: a resource called `print` writes three lines into the log, `print-flood` a thousand. */
export const wasi = read("wasip2");
/** Plugin `reconcile-copy`: each Thing gets a Copy from a controller, and has a finalizer. */
export const copies = read("controllers");

/** The same component with another digest: with a custom section that nothing reads. */
export function variant(component, note) {
  const text = Buffer.from(note);
  return Buffer.concat([component, Buffer.from([0, text.length + 1, text.length]), text]);
}

/** The beginning of a component. */
export const broken = (component) => component.subarray(0, component.length / 2);

/** Drops files on the page. */
export async function drop(page, files) {
  const list = files.map(([name, bytes]) => [name, Buffer.from(bytes).toString("base64")]);
  const transfer = await page.evaluateHandle((list) => {
    const made = new DataTransfer();
    for (const [name, text] of list) made.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
    return made;
  }, list);
  await page.dispatchEvent("main", "dragover", { dataTransfer: transfer });
  await page.dispatchEvent("main", "drop", { dataTransfer: transfer });
}
