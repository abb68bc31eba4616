// The server's metrics, read again and again as long as a page shows them.

import { getText } from "../api/http";
import { parseMetrics, total, type Metrics } from "../api/metrics";
import { asProblem, type Problem } from "../api/problem";
import { every } from "./poll.svelte";

const PAUSE_MS = 2_000;
const KEPT = 90;

export class MetricsReader {
  metrics = $state.raw<Metrics | undefined>();
  problem = $state.raw<Problem | undefined>();
  /** Rates per second of the followed sums, oldest first. */
  rates = $state.raw<Record<string, number[]>>({});
  #before: { at: number; sums: Record<string, number> } | undefined;
  readonly #followed: string[];

  constructor(followed: string[] = []) {
    this.#followed = followed;
  }

  /** Reads until the returned function is called. */
  start(): () => void {
    return every(PAUSE_MS, async (signal) => {
      try {
        const now = parseMetrics(await getText("/metrics", { signal }));
        this.metrics = now;
        this.problem = undefined;
        this.#follow(now);
      } catch (error) {
        if (signal.aborted) return;
        this.problem = asProblem(error);
        if (this.problem.isDenied) this.metrics = undefined;
        this.#before = undefined;
      }
    });
  }

  #follow(metrics: Metrics): void {
    const at = performance.now();
    const sums: Record<string, number> = {};
    for (const name of this.#followed) sums[name] = total(metrics, name) ?? 0;
    if (this.#before) {
      const seconds = (at - this.#before.at) / 1000;
      const rates: Record<string, number[]> = {};
      for (const name of this.#followed) {
        const rate = Math.max(0, ((sums[name] ?? 0) - (this.#before.sums[name] ?? 0)) / seconds);
        rates[name] = [...(this.rates[name] ?? []), rate].slice(-KEPT);
      }
      this.rates = rates;
    }
    this.#before = { at, sums };
  }
}
