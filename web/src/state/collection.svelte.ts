// All resources of a small type, live: plugins, endpoints. Tables of many rows have `Rows`.

import type { Resource } from "../api/model";
import type { Problem } from "../api/problem";
import type { Query } from "../api/http";
import { follow } from "./live.svelte";

export class Collection {
  all = $state.raw<Resource[]>([]);
  isComplete = $state(false);
  problem = $state.raw<Problem | undefined>();
  readonly #byKey = new Map<string, Resource>();

  /** Follows a query, from nothing on, until the returned function is called. */
  start(path: string, query: Query): () => void {
    this.#byKey.clear();
    this.all = [];
    this.isComplete = false;
    return follow(
      path,
      query,
      (changes) => {
        for (const change of changes) {
          if (change.kind === "reset") {
            this.#byKey.clear();
            this.isComplete = false;
          } else if (change.kind === "complete") this.isComplete = true;
          else {
            const { tenancy, name } = change.resource.id;
            const key = `${tenancy?.partition ?? ""}/${tenancy?.namespace ?? ""}/${name}`;
            if (change.kind === "delete") this.#byKey.delete(key);
            else this.#byKey.set(key, change.resource);
          }
        }
        this.all = [...this.#byKey.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, resource]) => resource);
      },
      (problem) => {
        this.problem = problem;
        if (problem) {
          this.#byKey.clear();
          this.all = [];
        }
      },
    );
  }
}
