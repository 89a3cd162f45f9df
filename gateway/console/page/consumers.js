// The consumers of a stream.

import { add, button, h, lines } from "./dom.js";
import { count, span } from "./format.js";
import { path } from "./http.js";
import { editConsumer } from "./consumer_form.js";
import { pages } from "./streams.js";
import { Table } from "./table.js";
import { troublePlace } from "./trouble.js";

const EVERY = 2000;

/** How far behind the end of its stream a consumer is, in messages that it wants. */
export const lag = (info) => info.num_pending + info.num_ack_pending;

export function stateOf(info) {
  if (info.paused) return `paused for ${span(info.pause_remaining / 1e9)}`;
  if (info.config.deliver_subject) return info.push_bound ? "delivering" : "nobody listens";
  return info.num_waiting ? `${count(info.num_waiting)} waiting` : "";
}

export async function consumers(box, at) {
  const { name, life } = at;
  const [place, failed] = troublePlace("The consumers cannot be listed");
  const table = new Table({
    label: "Consumers",
    key: (each) => each.name,
    sort: [0, false],
    empty: () => teach(name),
    columns: [
      { title: "Name", sort: (each) => each.name, cell: (each) => h("a", { class: "open", href: `#/streams/${encodeURIComponent(name)}/consumers/${encodeURIComponent(each.name)}` }, each.name) },
      { title: "Kind", kind: "wide", cell: ({ config }) => `${config.deliver_subject ? "push" : "pull"}, ${config.durable_name ? "durable" : "ephemeral"}` },
      { title: "Filter", kind: "subject wide", cell: ({ config }) => config.filter_subject ?? config.filter_subjects?.join(", ") ?? "" },
      { title: "Pending", kind: "number", sort: (each) => each.num_pending, cell: (each) => count(each.num_pending) },
      { title: "Unacked", kind: "number", sort: (each) => each.num_ack_pending, cell: (each) => count(each.num_ack_pending) },
      { title: "Lag", kind: "number", sort: lag, cell: (each) => count(lag(each)) },
      { title: "Redelivered", kind: "number wide", sort: (each) => each.num_redelivered, cell: (each) => count(each.num_redelivered) },
      { title: "State", cell: stateOf },
    ],
  });
  add(box, [
    h("div", { class: "bar" }, button("New consumer…", () => editConsumer(at)), h("span", { class: "dim" }, "Lag: messages that are not delivered yet, and those that are not acknowledged.")),
    place, table.element,
  ]);
  life.every(EVERY, async (signal) => table.update(await pages(`${path("streams", name)}/consumers`, "consumers", {}, signal)), failed);
}

function teach(name) {
  const at = `${location.origin}/v1/streams/${encodeURIComponent(name)}/consumers/reader`;
  return [
    h("p", {}, h("b", {}, `${name} has no consumer.`), " A consumer remembers what was delivered and acknowledged, and delivers again what was not. Make one with the button above, or in a shell:"),
    lines(`curl -X PUT ${at} -H 'Content-Type: application/json' -d '{"ack_policy": "explicit"}'`, `curl -X POST ${at}:fetch`),
  ];
}
