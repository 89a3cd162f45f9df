// Generates src/generated from openapi/openapi.json, unless it is current: `node generate.mjs`, which
// `npm install` and `npm run build` begin with. The first line of index.ts is a digest of the inputs.
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { reduced } from "./contract.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const CONTRACT = join(HERE, "../../openapi/openapi.json");
const GENERATED = join(HERE, "src/generated");
const INPUTS = [CONTRACT, ...["contract.mjs", "generate.mjs", "package.json", "tsconfig.json"].map((name) => join(HERE, name))];

function digest() {
  const hash = createHash("sha256");
  for (const path of INPUTS) hash.update(createHash("sha256").update(readFileSync(path)).digest());
  return `// inputs: sha256 ${hash.digest("hex")}\n`;
}

function isCurrent(wanted) {
  const path = join(GENERATED, "index.ts");
  return existsSync(path) && readFileSync(path, "utf8").startsWith(wanted);
}

async function generate(createClient, path) {
  await createClient({
    input: reduced(JSON.parse(readFileSync(CONTRACT, "utf8"))),
    output: { path, tsConfigPath: join(HERE, "tsconfig.json") },
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
}

const wanted = digest();
if (!isCurrent(wanted)) {
  const { createClient } = await import("@hey-api/openapi-ts").catch(() => {
    console.error("needs @hey-api/openapi-ts: npm install in sdks/typescript");
    process.exit(1);
  });
  const work = mkdtempSync(join(HERE, ".generating-"));
  try {
    const made = join(work, "generated");
    await generate(createClient, made);
    const index = join(made, "index.ts");
    writeFileSync(index, wanted + readFileSync(index, "utf8"));
    rmSync(GENERATED, { recursive: true, force: true });
    renameSync(made, GENERATED);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
