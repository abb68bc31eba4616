// Steps of a deletion as groups for reading.

import type { Id } from "../api/model";
import { idKey, type DeletePlan, type DeleteStep } from "../api/ownership";

export interface StepGroup {
  action: string;
  title: string;
  tone: "good" | "warn" | "bad" | "plain";
  steps: DeleteStep[];
}

/** In the order of the dialog: what stands in the way, what happens at once, and what happens later. */
const GROUPS: [string, string, StepGroup["tone"]][] = [
  ["ACTION_BLOCK", "Block the deletion", "bad"],
  ["ACTION_HANG", "Hang: are to be deleted, and wait", "warn"],
  ["ACTION_DELETE", "Deleted at once", "bad"],
  ["ACTION_MARK", "Marked at once, and deleted when nothing holds them", "warn"],
  ["ACTION_UNSET", "Lose a field at once", "warn"],
  ["ACTION_DELETE_LATER", "Deleted afterwards", "bad"],
  ["ACTION_UNSET_LATER", "Lose a field afterwards", "warn"],
  ["ACTION_RELEASE_LATER", "Lose an owner afterwards, and stay", "plain"],
];

/** Groups with steps. The resource itself, if it is simply deleted, is not among them: the dialog is about it. */
export function stepGroups(plan: DeletePlan): StepGroup[] {
  const [own, ...rest] = plan.steps ?? [];
  const isPlain = own && own.action === "ACTION_DELETE" && !own.because && !own.field;
  const steps = isPlain ? rest : (plan.steps ?? []);
  const known = GROUPS.map(([action, title, tone]) => ({ action, title, tone, steps: steps.filter((step) => step.action === action) }));
  const others = steps.filter((step) => !GROUPS.some(([action]) => action === step.action));
  return [...known, { action: "", title: "Other effects", tone: "warn" as const, steps: others }].filter((group) => group.steps.length > 0);
}

/** The reason for a blocked deletion, in a sentence. */
export function blockedBecause(plan: DeletePlan, id: Id): string {
  const own = idKey(id);
  const blocking = (plan.steps ?? []).filter((step) => step.action === "ACTION_BLOCK");
  const others = blocking.filter((step) => idKey(step.id) !== own).length;
  if (blocking.length > others) return `${id.name.slice(0, 80)} is protected from deletion.`;
  if (others > 0) return `${others === 1 ? "A resource refers" : `${others} resources refer`} to it by a field that blocks its deletion.`;
  return "Resources that you may not read block it.";
}
