// Links of a tree as nested lists.

import { idKey, type TreeLink } from "../api/ownership";
import type { Id } from "../api/model";

export interface Branch {
  id: Id;
  /** The link to the branch above. */
  link: TreeLink;
  below: Branch[];
  /** Whether it stands elsewhere in the tree already, with its own branches there. */
  isAgain: boolean;
}

/** The branches of a resource: what it depends on (`up`), or what depends on it (`down`). Each resource is opened once: links may be rings. */
export function branches(root: Id, links: TreeLink[], direction: "up" | "down"): Branch[] {
  const [near, far] = direction === "up" ? (["dependent", "target"] as const) : (["target", "dependent"] as const);
  const byNear = new Map<string, TreeLink[]>();
  for (const link of links) {
    const key = idKey(link[near]);
    const known = byNear.get(key);
    if (known) known.push(link);
    else byNear.set(key, [link]);
  }
  const opened = new Set<string>();
  const open = (key: string): Branch[] => {
    opened.add(key);
    const found = (byNear.get(key) ?? []).flatMap((link) => {
      const id = link[far];
      return id ? [{ id, link, below: [], isAgain: false } as Branch] : [];
    });
    for (const branch of found) {
      const next = idKey(branch.id);
      branch.isAgain = opened.has(next);
      if (!branch.isAgain) branch.below = open(next);
    }
    return found;
  };
  return open(idKey(root));
}

/** The kind of a link in words, between a resource and what it depends on. */
export function linkWords(link: TreeLink): string {
  if (link.owner) return "owner";
  if (link.ownerReference) return "owner reference";
  return "field";
}

export function onDelete(link: TreeLink): string {
  const rule = (link.onDelete ?? "").replace(/^ON_DELETE_/, "").replace(/_/g, " ").toLowerCase();
  return rule === "unspecified" ? "" : rule;
}
