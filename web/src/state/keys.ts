// Keys of the page, as in k9s: a single letter acts while no field has the focus.

import { onDestroy } from "svelte";

export interface KeyAction {
  key: string;
  label: string;
  act: () => void;
}

/** A plain list: it is read at the press of a key, and when the help opens. */
let actions: KeyAction[] = [];

export const keys = {
  get actions(): KeyAction[] {
    return actions;
  },
};

/** Adds keys as long as the component lives. */
export function useKeys(added: KeyAction[]): void {
  actions = [...actions, ...added];
  onDestroy(() => (actions = actions.filter((action) => !added.includes(action))));
}

/** Whether the event is for a field: text is typed there. Looks into shadow roots, where the editor is. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

/** Runs the action of a key. The newest one counts. */
export function press(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return false;
  if (document.querySelector("dialog[open]")) return false;
  const found = actions.findLast((action) => action.key === event.key);
  if (!found) return false;
  event.preventDefault();
  found.act();
  return true;
}
