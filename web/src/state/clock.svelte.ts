// The time for ages on the page. It moves in steps: a page that changes each second would be restless.

const STEP_MS = 5_000;
let now = $state(Date.now());
setInterval(() => {
  if (!document.hidden) now = Date.now();
}, STEP_MS);

export const clock = {
  get now(): number {
    return now;
  },
};
