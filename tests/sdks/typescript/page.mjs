// The scenarios in a page, which is not of the server's origin.
import * as sdk from "/sdk/index.js";
import { feeds } from "/feeds.mjs";
import { run, scenarios } from "/scenarios.mjs";

const { job } = globalThis;
job.passed = await run(sdk, job.url, job.prefix, job.which === "feeds" ? feeds : scenarios);
