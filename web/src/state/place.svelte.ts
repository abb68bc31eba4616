// Partition and namespace of the page: parameters of its address, so that a link leads to the same place.

import type { Place } from "../api/resources";
import { go, router } from "./router.svelte";

export const place = {
  get partition(): string {
    return router.query.get("partition") || "default";
  },
  get namespace(): string {
    return router.query.get("namespace") || "default";
  },
  get current(): Place {
    return { partition: place.partition, namespace: place.namespace };
  },
};

export function moveTo(to: Place): void {
  const search = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(to)) {
    if (value && value !== "default") search.set(name, value);
    else search.delete(name);
  }
  const text = search.toString();
  go(location.pathname + (text ? `?${text}` : ""));
}
