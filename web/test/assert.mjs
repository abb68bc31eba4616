// Comparisons that wait: a page shows a result some time after its cause.
import { strict as assert } from "node:assert";

export { assert };

/** Waits until the page shows a text in an element. */
export async function sees(page, text, within = "body") {
  await page.locator(within).getByText(text).first().waitFor();
}

/** Waits until a condition in the page holds. */
export function holds(page, condition, argument) {
  return page.waitForFunction(condition, argument);
}

/** Waits until the stream of the page has a state. */
export function isLive(page, state = "live") {
  return page.locator(`[data-live="${state}"]`).waitFor();
}
