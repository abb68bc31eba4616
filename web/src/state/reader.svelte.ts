// An answer of the server that is asked for again and again, as long as a page shows it.

import { asProblem, type Problem } from "../api/problem";
import { every } from "./poll.svelte";

export class Reader<T> {
  value = $state.raw<T | undefined>();
  problem = $state.raw<Problem | undefined>();
  readonly #read: (signal: AbortSignal) => Promise<T>;

  constructor(read: (signal: AbortSignal) => Promise<T>) {
    this.#read = read;
  }

  /** Reads now and every `ms` until the returned function is called. A refusal takes the last answer away. */
  start(ms: number): () => void {
    return every(ms, async (signal) => {
      try {
        const value = await this.#read(signal);
        // An answer behind the end is of another question.
        if (signal.aborted) return;
        this.value = value;
        this.problem = undefined;
      } catch (error) {
        if (signal.aborted) return;
        this.problem = asProblem(error);
        if (!this.problem.isUnreachable && this.problem.status < 500) this.value = undefined;
      }
    });
  }
}
