// Dark or light: as the system says, or as the person chose.

export type Theme = "system" | "light" | "dark";
const KEY = "mortise.theme";

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

let chosen = $state<Theme>(stored());

function apply(): void {
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}
apply();

export const theme = {
  get chosen(): Theme {
    return chosen;
  },
};

export function switchTheme(): void {
  const next: Record<Theme, Theme> = { system: "dark", dark: "light", light: "system" };
  chosen = next[chosen];
  try {
    if (chosen === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, chosen);
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
  apply();
}
