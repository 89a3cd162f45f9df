// Creating and changing a consumer.

import { dialog, h, say } from "./dom.js";
import { area, field, form, input, number, select } from "./forms.js";
import { written } from "./format.js";
import { path, send } from "./http.js";
import { changed, further, time } from "./stream_form.js";

/** Open the form for a new consumer of the stream of the view `at`, or for `info`. */
export function editConsumer(at, info, done = () => undefined) {
  const title = info ? `Edit the consumer ${info.name}` : `New consumer of ${at.name}`;
  return dialog(title, (close) => page(at, info, close, done), { class: "sheet" });
}

function page(at, info, close, done) {
  const config = info?.config ?? {};
  const fixed = { disabled: Boolean(info) };
  const name = input({ value: info?.name ?? "", required: true, readonly: Boolean(info), class: "mono", placeholder: "billing" });
  const filters = area({ value: [config.filter_subject, ...(config.filter_subjects ?? [])].filter(Boolean).join("\n"), rows: "2", class: "mono", placeholder: "all subjects" });
  const deliver = select([["all", "with the first message"], ["new", "with the next message"], ["last", "with the last message"], ["last_per_subject", "with the last of each subject"], ["by_start_sequence", "at a sequence"]], config.deliver_policy, fixed);
  const start = input({ inputmode: "numeric", value: config.opt_start_seq ? String(config.opt_start_seq) : "", ...fixed });
  const ack = select([["explicit", "each by itself"], ["all", "all up to one"], ["none", "not at all"]], config.ack_policy, fixed);
  const wait = input({ value: written(config.ack_wait), placeholder: "30s" });
  const deliveries = input({ inputmode: "numeric", placeholder: "no limit", value: config.max_deliver > 0 ? String(config.max_deliver) : "" });
  const pending = input({ inputmode: "numeric", placeholder: "1000", value: config.max_ack_pending > 0 ? String(config.max_ack_pending) : "" });
  const letters = input({ class: "mono", value: config.metadata?.["jetgate.dead_letter"] ?? "" });
  const more = area({ rows: "3", class: "mono", placeholder: '{"inactive_threshold": 60000000000}' });
  const gather = () => {
    const subjects = filters.value.split(/[\s,]+/).filter(Boolean);
    const wanted = { max_deliver: number(deliveries, "Most deliveries") || -1 };
    if (subjects.length === 1) wanted.filter_subject = subjects[0];
    else if (subjects.length) wanted.filter_subjects = subjects;
    if (info && config.filter_subject && subjects.length !== 1) wanted.filter_subject = null;
    if (info && config.filter_subjects && subjects.length < 2) wanted.filter_subjects = null;
    const ackWait = time(wait, "Acknowledged within");
    if (ackWait) wanted.ack_wait = ackWait;
    const most = number(pending, "Most unacknowledged");
    if (most) wanted.max_ack_pending = most;
    if (config.metadata?.["jetgate.dead_letter"]) wanted.metadata = { "jetgate.dead_letter": letters.value.trim() || null };
    else if (letters.value.trim()) wanted.metadata = { "jetgate.dead_letter": letters.value.trim() };
    if (!info) Object.assign(wanted, { deliver_policy: deliver.value, ack_policy: ack.value });
    const from = info ? undefined : number(start, "Sequence", 1);
    if (from) wanted.opt_start_seq = from;
    return { ...wanted, ...further(more) };
  };
  const save = async () => {
    const wanted = gather();
    const target = path("streams", at.name, "consumers", name.value.trim());
    if (info) await send(target, { method: "PATCH", json: changed(config, wanted) });
    else await send(target, { method: "PUT", json: wanted, headers: { "If-None-Match": "*" } });
    say(`The consumer ${name.value} was ${info ? "changed" : "created"}.`);
    close(true);
    done();
    if (!info) location.hash = `#/streams/${encodeURIComponent(at.name)}/consumers/${encodeURIComponent(name.value.trim())}`;
  };
  return form([
    field("Name", name),
    field("Only these subjects", filters, "One a line, with wildcards."),
    h("div", { class: "pair" }, field("It begins", deliver), field("Sequence", start), field("Acknowledged", ack)),
    h("div", { class: "pair" }, field("Acknowledged within", wait, "then it is delivered again"), field("Most deliveries", deliveries, "of one message"), field("Most unacknowledged", pending, "at the same time")),
    field("Dead letters go to the stream", letters, "What was delivered too often or terminated is stored there."),
    field("Further members, as JSON", more),
  ], info ? `Change ${info.name}` : "Create", save, { cancel: () => close(), title: info ? "Not changed" : "Not created" });
}
