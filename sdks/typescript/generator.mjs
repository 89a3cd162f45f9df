// Makes src/generated: node generator.mjs NODE_MODULES OPENAPI OUT (sdks/generate.py calls it).
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [, , modules, input, path] = process.argv;
const generator = join(modules, "@hey-api/openapi-ts/dist/index.mjs");
const { createClient } = await import(pathToFileURL(generator).href);

await createClient({
  input,
  output: { path, tsConfigPath: join(dirname(fileURLToPath(import.meta.url)), "tsconfig.json") },
  logs: { level: "silent" },
  plugins: [
    { name: "@hey-api/client-fetch", throwOnError: true },
    "@hey-api/typescript",
    {
      name: "@hey-api/sdk",
      operations: { strategy: "single", containerName: "Operations" },
      responseStyle: "data",
    },
  ],
});
