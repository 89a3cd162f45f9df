// node node.mjs SDK URL PREFIX [feeds]: prints the names of the scenarios that passed, as JSON.
import { pathToFileURL } from "node:url";
import { feeds } from "./feeds.mjs";
import { run, scenarios } from "./scenarios.mjs";

const [, , sdk, url, prefix, which] = process.argv;
const all = which === "feeds" ? feeds : scenarios;
console.log(JSON.stringify(await run(await import(pathToFileURL(sdk).href), url, prefix, all)));
