// All streams.

import { add, button, h, lines } from "./dom.js";
import { check, field, input } from "./forms.js";
import { ago, bytes, clock, count, plural, rate } from "./format.js";
import { ask } from "./http.js";
import { Rates } from "./rates.js";
import { editStream } from "./stream_form.js";
import { Table } from "./table.js";
import { troublePlace } from "./trouble.js";

const EVERY = 2000;
const PAGES = 20; // of 256: who has more of them filters by subject

/** Every page of a list, up to a bound. */
export async function pages(url, member, query, signal) {
  const found = [];
  for (let page = 0; page < PAGES; page++) {
    const some = await ask(url, { query: { ...query, offset: found.length || "" }, signal });
    found.push(...some[member]);
    if (found.length >= some.total || !some[member].length) break;
  }
  return found;
}

export async function streams(box, { query, life }) {
  const rates = new Rates();
  let known = [];
  const filter = input({ type: "search", value: query.get("filter") ?? "", "data-filter": true, placeholder: "name or subject" });
  const [bucketsLabel, withBuckets] = check("those of buckets too");
  const summary = h("p", { class: "dim", role: "status" });
  const [place, failed] = troublePlace("The streams cannot be listed");
  const table = new Table({
    label: "Streams",
    key: (each) => each.config.name,
    sort: [0, false],
    columns: columns(rates),
    empty: () => (known.length ? h("p", {}, "No stream matches the filter.") : teach()),
  });
  const show = () => {
    const wanted = filter.value.toLowerCase();
    const rows = known.filter(({ config: { name, subjects = [] } }) => (withBuckets.checked || !/^(KV|OBJ)_/.test(name)) && [name, ...subjects].some((text) => text.toLowerCase().includes(wanted)));
    table.update(rows);
    const all = rows.reduce((sum, { state }) => [sum[0] + state.messages, sum[1] + state.bytes], [0, 0]);
    summary.textContent = rows.length ? `${plural(rows.length, "stream")}, ${plural(all[0], "message")}, ${bytes(all[1])}` : "";
  };
  filter.addEventListener("input", () => {
    history.replaceState(null, "", `#/streams${filter.value ? `?filter=${encodeURIComponent(filter.value)}` : ""}`);
    show();
  });
  withBuckets.addEventListener("change", show);
  const create = button("New stream…", () => editStream(), {});
  add(box, [
    h("div", { class: "title" }, h("h1", {}, "Streams"), summary, h("div", { class: "actions" }, create)),
    h("div", { class: "bar" }, field("Filter", filter), bucketsLabel),
    place,
    table.element,
  ]);
  life.every(EVERY, async (signal) => {
    known = await pages("/v1/streams", "streams", {}, signal);
    show();
  }, failed);
  return "Streams";
}

function columns(rates) {
  const name = (each) => each.config.name;
  const subjects = ({ config }) => config.subjects?.join(", ") || (config.mirror ? `mirror of ${config.mirror.name}` : config.sources ? "sources" : "");
  return [
    { title: "Name", sort: name, cell: (each) => h("a", { class: "open", href: `#/streams/${encodeURIComponent(name(each))}` }, name(each)) },
    { title: "Subjects", kind: "subject mid", cell: subjects },
    { title: "Messages", kind: "number", sort: (each) => each.state.messages, cell: (each) => count(each.state.messages) },
    { title: "Bytes", kind: "number", sort: (each) => each.state.bytes, cell: (each) => bytes(each.state.bytes) },
    { title: "Rate", kind: "number mid", cell: (each) => rate(rates.of(name(each), each.state.last_seq)) },
    { title: "Held subjects", kind: "number wide", sort: (each) => each.state.num_subjects ?? 0, cell: (each) => count(each.state.num_subjects) },
    { title: "First", kind: "wide time", sort: (each) => each.state.first_ts, cell: (each) => clock(each.state.first_ts).slice(0, 19) },
    { title: "Last", kind: "time", sort: (each) => each.state.last_ts, cell: (each) => (each.state.last_seq ? ago(each.state.last_ts) : "") },
    { title: "Consumers", kind: "number wide", sort: (each) => each.state.consumer_count, cell: (each) => count(each.state.consumer_count) },
  ];
}

function teach() {
  const at = location.origin;
  return [
    h("p", {}, h("b", {}, "There is no stream yet."), " A stream stores every message that is published to its subjects. Make one with the button above, or in a shell:"),
    lines(
      `curl -X PUT ${at}/v1/streams/ORDERS -H 'Content-Type: application/json' \\`,
      `  -d '{"subjects": ["orders.>"], "allow_direct": true}'`,
      `curl -d 'hello' ${at}/v1/subjects/orders.new`,
    ),
  ];
}
