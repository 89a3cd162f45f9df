// Push consumers: node push.mjs nats://HOST:PORT
// Subject: push consumers
import { core, jetstream } from "./packages.mjs";
import { brief, collect, firstOf, forget, main, numbered, step, until } from "./transcript.mjs";

await main(async (nc, address) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const js = jsm.jetstream();
  await forget(jsm, "JQ");
  await jsm.streams.add({ name: "JQ", subjects: ["jq.>"], allow_direct: true });
  for (let n = 1; n <= 12; n++) await js.publish(`jq.${n % 3}`, `m${n}`);

  const push = { durable_name: "p", deliver_subject: "deliver.p", ack_policy: "explicit" };
  await step("add", jsm.consumers.add("JQ", push));
  await step("not bound", async () => (await jsm.consumers.info("JQ", "p")).push_bound);
  const p = await js.consumers.getPushConsumer("JQ", "p");
  await step("consume", async () => {
    const messages = await p.consume();
    await until(async () => (await jsm.consumers.info("JQ", "p")).push_bound);
    return collect(
      messages,
      (m) => {
        m.ack();
        return numbered(m);
      },
      12,
    );
  });
  await step("all acked", until(async () => (await p.info()).ack_floor.consumer_seq === 12));
  await step("left", until(async () => !(await p.info()).push_bound));
  await step("goes on", async () => {
    const got = [];
    const messages = await p.consume({ callback: (m) => got.push(m.string()) && m.ack() });
    await js.publish("jq.0", "m13");
    await until(() => got.length > 0);
    await messages.close();
    return got;
  });

  // heartbeats and flow control
  await step("heartbeats", async () => {
    await jsm.consumers.add("JQ", {
      durable_name: "h",
      deliver_subject: "deliver.h",
      idle_heartbeat: 2e8,
      flow_control: true,
      ack_policy: "none",
      filter_subject: "jq.1",
    });
    const h = await js.consumers.getPushConsumer("JQ", "h");
    const messages = await h.consume();
    const beat = firstOf(messages.status(), "heartbeat");
    const got = await collect(messages, brief, 3, () => beat);
    const { type, lastConsumerSequence } = await beat;
    return [got, type, lastConsumerSequence];
  });
  await step("flow control", async () => {
    await jsm.consumers.add("JQ", {
      durable_name: "w",
      deliver_subject: "deliver.w",
      idle_heartbeat: 1e9,
      flow_control: true,
      ack_policy: "none",
      filter_subject: "jq.large",
    });
    for (let n = 0; n < 40; n++) await js.publish("jq.large", new Uint8Array(50000));
    const w = await js.consumers.getPushConsumer("JQ", "w");
    const messages = await w.consume();
    const controlled = firstOf(messages.status(), "flow_control");
    const sizes = await collect(messages, (m) => m.data.length, 40);
    return [sizes.length, new Set(sizes).size, (await controlled).type];
  });

  // a deliver group is shared by its members
  await step("group", async () => {
    const shared = { deliver_subject: "deliver.g", deliver_group: "workers", ack_policy: "none" };
    await jsm.consumers.add("JQ", { durable_name: "g", ...shared, filter_subject: "jq.2" });
    const members = [0, 1].map(() => nc.subscribe("deliver.g", { queue: "workers" }));
    await until(() => members[0].getReceived() + members[1].getReceived() === 4);
    members.forEach((member) => member.unsubscribe());
    return (await jsm.consumers.info("JQ", "g")).delivered;
  });
  await step("bound to a subject", async () => {
    const spec = { name: "b", deliver_subject: "deliver.b", ack_policy: "none", headers_only: true };
    const bound = await js.consumers.getBoundPushConsumer({ deliver_subject: "deliver.b" });
    const messages = await bound.consume();
    await nc.flush();
    await jsm.consumers.add("JQ", { ...spec, filter_subject: "jq.0" });
    return collect(messages, (m) => [m.seq, m.string(), m.headers], 5);
  });

  // ordered
  await step("ordered", async () => {
    const o = await js.consumers.getPushConsumer("JQ", { filter_subjects: ["jq.0", "jq.1"] });
    return collect(await o.consume(), numbered, 9);
  });
  await step("last of a subject", async () => {
    const last = { deliver_policy: "last", filter_subjects: "jq.2" };
    const o = await js.consumers.getPushConsumer("JQ", last);
    return collect(await o.consume(), brief, 1);
  });

  // ephemeral ones end with their subscriber
  await step("ephemeral", async () => {
    const inbox = core.createInbox();
    const spec = { deliver_subject: inbox, ack_policy: "none", inactive_threshold: 1e8 };
    const sub = nc.subscribe(inbox);
    const { name } = await jsm.consumers.add("JQ", spec);
    await until(() => sub.getReceived() > 0);
    sub.unsubscribe();
    const gone = () => jsm.consumers.info("JQ", name).then(() => null, (error) => error);
    return until(gone);
  });
  await step("rate limit and replay", async () => {
    const slow = { deliver_subject: "deliver.s", rate_limit_bps: 8000000, replay_policy: "original" };
    const { config } = await jsm.consumers.add("JQ", { name: "s", ...slow, ack_policy: "none" });
    return config;
  });
  await step("pull fields", jsm.consumers.add("JQ", { ...push, name: "x", max_waiting: 3 }));
  await step("cycle", jsm.consumers.add("JQ", { name: "x", deliver_subject: "jq.cycle" }));
  await step("a pull consumer is no push consumer", async () => {
    await jsm.consumers.add("JQ", { durable_name: "pull", ack_policy: "explicit" });
    return js.consumers.getPushConsumer("JQ", "pull");
  });
  await step("a push consumer is no pull consumer", js.consumers.get("JQ", "p"));
  await step("delete", p.delete());
  await jsm.streams.delete("JQ");
});
