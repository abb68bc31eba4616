import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The server that answers the API during `npm run dev`.
const server = process.env.MORTISE_HTTP ?? "http://127.0.0.1:8500";
const proxied = { target: server, changeOrigin: true, headers: { origin: server } };

export default defineConfig({
  base: "/ui/",
  plugins: [svelte()],
  build: {
    outDir: "../host/api/ui",
    emptyOutDir: true,
    target: "es2022",
    // A file for each asset: the policy of the page allows no inline script or style.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { checks: { pluginTimings: false } },
  },
  server: { proxy: { "/api": proxied, "/v1": proxied, "/metrics": proxied, "/readyz": proxied } },
});
