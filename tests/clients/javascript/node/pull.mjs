// Pull consumers: node pull.mjs nats://HOST:PORT
// Subject: pull consumers
import { core, jetstream } from "./packages.mjs";
import { brief, collect, forget, main, numbered, patiently, step, until } from "./transcript.mjs";

const SECOND = 1e9;
const soon = { expires: 20000 }; // where there is something, nobody waits so long

await main(async (nc) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const js = jsm.jetstream();
  await forget(jsm, "JC");
  await jsm.streams.add({ name: "JC", subjects: ["jc.>"] });
  for (let n = 1; n <= 20; n++) await js.publish(`jc.${n % 2 ? "odd" : "even"}`, `m${n}`);

  // management
  await step("add", jsm.consumers.add("JC", { durable_name: "d", ack_policy: "explicit" }));
  await step("add again", jsm.consumers.add("JC", { durable_name: "d", ack_policy: "explicit" }));
  await step("add other", jsm.consumers.add("JC", { durable_name: "d", ack_policy: "none" }));
  await step(
    "add filtered",
    jsm.consumers.add("JC", {
      name: "f",
      filter_subjects: ["jc.odd", "jc.even"],
      ack_policy: "all",
      deliver_policy: "by_start_sequence",
      opt_start_seq: 10,
      inactive_threshold: 60 * SECOND,
      metadata: { by: "node" },
      max_batch: 5,
      max_expires: 10 * SECOND,
      max_waiting: 3,
      description: "filtered",
      backoff: [SECOND, 2 * SECOND],
      max_deliver: 3,
      sample_freq: "50%",
    }),
  );
  await step("update", jsm.consumers.update("JC", "f", { description: "changed" }));
  await step("update of none", jsm.consumers.update("JC", "none", { description: "changed" }));
  await step("list", collect(jsm.consumers.list("JC"), (info) => info.name).then((n) => n.sort()));
  await step("info", jsm.consumers.info("JC", "d"));
  await step("info of none", jsm.consumers.info("JC", "none"));
  await step("without a stream", jsm.consumers.add("NONE", { ack_policy: "explicit" }));
  await step("push fields", jsm.consumers.add("JC", { name: "x", flow_control: true }));
  await step("get none", js.consumers.get("JC", "none"));
  await step("too large a batch", async () => {
    const c = await js.consumers.get("JC", "f");
    return collect(await c.fetch({ max_messages: 6, expires: 1000 }), brief);
  });

  // one by one, and in batches
  const c = await js.consumers.get("JC", "d");
  await step("next", async () => {
    const m = await c.next(soon);
    m.ack();
    const { stream, consumer, deliveryCount, streamSequence, deliverySequence, pending } = m.info;
    return [stream, consumer, deliveryCount, streamSequence, deliverySequence, pending];
  });
  await step("fetch", async () => {
    return collect(await c.fetch({ max_messages: 5, ...soon }), (m) => {
      m.ack();
      return numbered(m);
    });
  });
  await step("fetch by bytes", async () => {
    const got = [];
    const messages = await c.fetch({ max_bytes: 250, ...soon });
    const took = collect(messages, (m) => got.push(m.seq) && m.ack());
    return [await took.catch((error) => error.message), got];
  });
  await step("acks", async () => {
    await until(async () => (await jsm.consumers.info("JC", "d")).num_ack_pending === 0);
    const { delivered, ack_floor } = await jsm.consumers.info("JC", "d");
    return { delivered, ack_floor };
  });
  await step("double ack", async () => (await c.next(soon)).ackAck());
  await jsm.consumers.add("JC", { durable_name: "k", ack_policy: "explicit", max_ack_pending: 1 });
  const k = await js.consumers.get("JC", "k");
  await step("nak", async () => {
    const m = await k.next(soon);
    m.nak();
    const again = await k.next(soon);
    again.working();
    await again.ackAck();
    return [m.seq, again.seq, again.redelivered, again.info.deliveryCount];
  });
  await step("nak with delay", async () => {
    const m = await k.next(soon);
    m.nak(50);
    const again = await k.next(soon);
    await again.ackAck();
    return [m.seq, again.seq, again.redelivered, again.time > m.time];
  });
  await step("term", async () => {
    const events = nc.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.JC.d", { max: 1 });
    const m = await c.next(soon);
    m.term("bad input");
    return collect(events, (e) => [e.json().reason, e.json().stream_seq === m.seq]);
  });
  await step("ack and next", async () => {
    const m = await c.next(soon);
    const inbox = core.createInbox();
    const more = nc.subscribe(inbox, { max: 2 });
    m.next(inbox, { batch: 2 });
    return collect(more, (n) => n.string());
  });

  // consuming until everything is there
  await jsm.consumers.add("JC", { durable_name: "e", ack_policy: "explicit" });
  const e = await js.consumers.get("JC", "e");
  await step("consume", async () => {
    const got = [];
    for await (const m of await e.consume({ max_messages: 6 })) {
      got.push(m.string());
      m.ack();
      if (m.info.pending === 0) break;
    }
    return got.join(" ");
  });
  await step("consume with callback", async () => {
    const got = [];
    const messages = await e.consume({ callback: (m) => got.push(m.string()) && m.ack() });
    await js.publish("jc.odd", "late");
    await until(() => got.length === 1);
    await messages.close();
    return got;
  });
  await step("consumer gone", async () => {
    const messages = await e.consume({ ...soon, abort_on_missing_resource: true });
    const told = collect(messages.status(), (s) => s.type);
    const ended = collect(messages).catch((error) => error);
    await until(async () => (await jsm.consumers.info("JC", "e")).num_waiting > 0);
    await e.delete();
    return [await ended, (await told).filter((type) => type !== "next")];
  });
  await step("nothing to fetch", async () => {
    await jsm.consumers.add("JC", { durable_name: "n", filter_subject: "jc.none" });
    const none = await js.consumers.get("JC", "n");
    const fetch = async () => collect(await none.fetch({ expires: 1000 }));
    return [await patiently(() => none.next({ expires: 1000 })), await patiently(fetch)];
  });

  // ordered
  await step("ordered", async () => {
    const o = await js.consumers.get("JC", { filter_subjects: "jc.even" });
    return collect(await o.fetch({ max_messages: 4, ...soon }), numbered);
  });
  await step("ordered from", async () => {
    const from = { deliver_policy: "by_start_sequence", opt_start_seq: 18, headers_only: true };
    const o = await js.consumers.get("JC", from);
    return collect(await o.consume(), (m) => [m.seq, m.string(), m.headers], 3);
  });
  await step("ordered goes on after a loss", async () => {
    const o = await js.consumers.get("JC");
    const messages = await o.consume({ max_messages: 3, expires: 1000, idle_heartbeat: 500 });
    const got = [];
    for await (const m of messages) {
      got.push(m.seq);
      if (got.length === 3) await jsm.consumers.delete("JC", (await o.info(true)).name);
      if (got.length === 21) break;
    }
    return got.join(" ");
  });
  await step("last of each subject", async () => {
    const o = await js.consumers.get("JC", { deliver_policy: "last_per_subject" });
    return collect(await o.consume(), (m) => m.string(), 2);
  });

  // waiting, redelivery, limits
  await step("redelivery", async () => {
    const events = nc.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.JC.r", { max: 1 });
    const limited = { ack_policy: "explicit", ack_wait: SECOND / 5, max_deliver: 2 };
    // One message: others might be delivered too often, too, before their acknowledgement comes.
    await js.publish("jc.once", "often");
    await jsm.consumers.add("JC", { durable_name: "r", ...limited, filter_subject: "jc.once" });
    const r = await js.consumers.get("JC", "r");
    const first = await r.next(soon);
    const counts = [first.info.deliveryCount];
    for await (const m of await r.consume({ max_messages: 100, ...soon })) {
      counts.push(m.info.deliveryCount);
      if (counts.length === 2) break;
    }
    const [event] = await collect(events, (m) => m.json());
    return [counts, event.stream_seq === first.seq, event.deliveries];
  });
  await step("reset", async () => {
    await jsm.consumers.add("JC", { durable_name: "t", ack_policy: "explicit" });
    const t = await js.consumers.get("JC", "t");
    for await (const m of await t.fetch({ max_messages: 3, ...soon })) await m.ackAck();
    const { reset_seq } = await jsm.consumers.reset("JC", "t", 2);
    return [reset_seq, (await t.next(soon)).seq];
  });
  for (const name of ["d", "f"]) await step(`delete ${name}`, jsm.consumers.delete("JC", name));
  await step("delete again", jsm.consumers.delete("JC", "d"));
  await jsm.streams.delete("JC");
});
