// Make scripts ready for a page: node bundle.cjs OUT SCRIPT...
const path = require("node:path");
const esbuild = require("esbuild");

const [, , outdir, ...entryPoints] = process.argv;
const packages = {
  name: "packages of a page",
  setup: ({ onResolve }) =>
    onResolve({ filter: /\/packages\.mjs$/ }, () => ({ path: path.join(__dirname, "packages.mjs") })),
};

esbuild
  .build({
    entryPoints,
    outdir,
    bundle: true,
    format: "esm",
    target: "es2022",
    external: ["node:*"],
    nodePaths: process.env.NODE_PATH.split(path.delimiter),
    plugins: [packages],
  })
  .catch(() => process.exit(1));
