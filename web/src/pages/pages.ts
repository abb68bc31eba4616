// The pages of the navigation.

export interface PageLink {
  title: string;
  path: string[];
  group: "" | "Resources" | "Server";
}

export const PAGES: PageLink[] = [
  { title: "Overview", path: [], group: "" },
  { title: "Types", path: ["types"], group: "Resources" },
  { title: "Query", path: ["query"], group: "Resources" },
  { title: "Services", path: ["services"], group: "Resources" },
  { title: "Plugins", path: ["plugins"], group: "Server" },
  { title: "Controllers", path: ["controllers"], group: "Server" },
  { title: "Access", path: ["access"], group: "Server" },
  { title: "Regions", path: ["regions"], group: "Server" },
];
