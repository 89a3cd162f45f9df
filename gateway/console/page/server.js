// How the server is.

import { add, fill, h } from "./dom.js";
import { bytes, clock, count, rate, span } from "./format.js";
import { Refused, ask, askText, send } from "./http.js";
import { Rates } from "./rates.js";
import { troublePlace } from "./trouble.js";

const EVERY = 2000;
const LINE = /^(\w+)(?:\{(.*)\})? (\S+)$/;

export async function server(box, { life }) {
  const rates = new Rates();
  const state = h("p", { class: "summary" });
  const figures = h("dl", { class: "figures" });
  const account = h("dl", { class: "facts" });
  const [place, failed] = troublePlace();
  add(box, [
    h("div", { class: "title" }, h("h1", {}, "Server")), state, place,
    figures, h("h2", {}, "Account"), account,
    h("p", { class: "dim" }, "More: ", h("a", { href: "/docs" }, "the HTTP reference"), ", ", h("a", { href: "/metrics" }, "all metrics"), ". Single connections are not shown: the HTTP port does not list them."),
  ]);
  const began = Date.now();
  life.every(EVERY, async (signal) => {
    fill(state, await readiness(signal));
    const [usage, text] = await Promise.all([ask("/v1/account", { signal }), askText("/metrics", { headers: { Accept: "text/plain" }, signal })]);
    fill(figures, figuresOf(readMetrics(text), rates, Date.now() - began).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
    fill(account, factsOf(usage).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  }, failed);
  return "Server";
}

/** Whether requests are served, and by whom. */
async function readiness(signal) {
  const version = document.querySelector("meta[name=version]").content;
  let said = "ready: all streams are led and JetStream answers";
  try {
    await send("/readyz", { signal });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    said = error.message;
  }
  return [h("span", {}, `jetgate ${version}`), h("span", {}, location.host), h("span", {}, said), h("span", { class: "dim" }, `at ${clock(new Date().toISOString()).slice(11, 19)}`)];
}

/** Metrics without labels, and the buckets of commits. */
function readMetrics(text) {
  const found = { buckets: [] };
  for (const line of text.split("\n")) {
    const [, name, labels, value] = LINE.exec(line) ?? [];
    if (!name) continue;
    if (name === "jetgate_commit_seconds_bucket") found.buckets.push([Number(/le="([^"]*)"/.exec(labels)[1].replace("+Inf", "Infinity")), Number(value)]);
    else if (!labels) found[name.replace(/^jetgate_/, "")] = Number(value);
  }
  return found;
}

function figuresOf(found, rates) {
  if (found.connections === undefined) return [["Metrics", "this server shows none of itself"]];
  const each = (name, show = rate) => show(rates.of(name, found[name])) || "0/s";
  return [
    ["Connections", count(found.connections)], ["Subscriptions", count(found.subscriptions)],
    ["Messages in", each("in_msgs_total")], ["Messages out", each("out_msgs_total")],
    ["Bytes in", `${bytes(rates.of("in_bytes_total", found.in_bytes_total))}/s`], ["Bytes out", `${bytes(rates.of("out_bytes_total", found.out_bytes_total))}/s`],
    ["Commits", each("commits_total")], ["Half of the commits within", quantile(found.buckets, 0.5)], ["99 of 100 within", quantile(found.buckets, 0.99)],
    ["Failed commits", count(found.commit_failures_total)], ["Stalls over 100 ms", count(found.loop_stalls_total)], ["Slow readers cut off", count(found.slow_consumers_total)],
  ];
}

/** The bound below which a part of all commits was, since the start. */
function quantile(buckets, part) {
  const total = buckets.at(-1)?.[1] ?? 0;
  if (!total) return "none yet";
  const [bound] = buckets.find(([, sum]) => sum >= part * total);
  return Number.isFinite(bound) ? span(bound).replace(/^0 ms$/, `${bound * 1000} ms`) : "longer than 5 s";
}

const of = (used, most, show = count) => (most > 0 ? `${used} of ${show(most)}` : `${used}, no limit`);

function factsOf({ storage, memory, streams, consumers, limits, api }) {
  return [
    ["Storage", of(bytes(storage), limits.max_storage, bytes)], ["Memory streams", of(bytes(memory), limits.max_memory, bytes)],
    ["Streams", of(count(streams), limits.max_streams)], ["Consumers", of(count(consumers), limits.max_consumers)],
    ["API requests", `${count(api.total)}, ${count(api.errors)} of them refused`], ["API level", count(api.level)],
  ];
}
