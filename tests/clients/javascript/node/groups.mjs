// Priority groups and pausing: node groups.mjs nats://HOST:PORT
// Subject: pull consumers
import { jetstream } from "./packages.mjs";
import { collect, dial, forget, main, patiently, step, until } from "./transcript.mjs";

await main(async (nc, address) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const js = jsm.jetstream();
  await forget(jsm, "JG");
  await jsm.streams.add({ name: "JG", subjects: ["jg.>"] });
  const publish = async (count) => {
    for (let n = 0; n < count; n++) await js.publish("jg.a", `m${n}`);
  };
  const add = (name, more) =>
    jsm.consumers.add("JG", { durable_name: name, ack_policy: "explicit", ...more });
  const second = await dial(address);
  const other = jetstream.jetstream(second);

  // overflow
  const overflow = { priority_groups: ["jobs"], priority_policy: "overflow" };
  await step("overflow", add("o", overflow));
  await step("no group named", async () => {
    const c = await js.consumers.get("JG", "o");
    return collect(await c.fetch({ max_messages: 1, expires: 1000 }));
  });
  await publish(3);
  const fetch = (name, options) => async () => {
    const c = await js.consumers.get("JG", name);
    const given = { max_messages: 10, expires: 1000, group: "jobs", ...options };
    return patiently(async () => collect(await c.fetch({ ...given }), (m) => m.seq));
  };
  const one = { max_messages: 1, expires: 20000 };
  await step("too few pending", fetch("o", { min_pending: 4 }));
  await step("enough pending", fetch("o", { min_pending: 3, ...one }));
  await step("enough unacknowledged", fetch("o", { min_ack_pending: 1, ...one }));
  await step("too few unacknowledged", fetch("o", { min_ack_pending: 5 }));

  // pinned: one client gets everything until it is unpinned
  const pinned = { priority_groups: ["jobs"], priority_policy: "pinned_client" };
  await step("pinned", add("p", { ...pinned, priority_timeout: 60e9 }));
  await step("one is pinned", async () => {
    const got = { first: 0, second: 0 };
    const told = [];
    const from = async (client, who) => {
      const c = await client.consumers.get("JG", "p");
      const messages = await c.consume({
        group: "jobs",
        max_messages: 10,
        expires: 5000,
        callback: (m) => {
          got[who] += 1;
          m.ack();
        },
      });
      collect(messages.status(), (s) => s.type.includes("pinned") && told.push([who, s.type]));
      return messages;
    };
    const one = await from(js, "first");
    await until(() => got.first === 3);
    const two = await from(other, "second");
    await until(async () => (await jsm.consumers.info("JG", "p")).num_waiting >= 2);
    await publish(4);
    await until(() => got.first === 7);
    const { priority_groups } = await jsm.consumers.info("JG", "p");
    const state = priority_groups.map((g) => [g.group, typeof g.pinned_client_id]);
    const counts = { ...got };
    await one.close();
    await jsm.consumers.unpin("JG", "p", "jobs");
    await publish(2);
    await until(() => got.second === 2);
    await two.close();
    return { state, counts, after: got, told };
  });
  await step("unpin an unknown group", jsm.consumers.unpin("JG", "p", "nothing"));
  await step("unpin what is not pinned", jsm.consumers.unpin("JG", "o", "jobs"));

  // prioritized: who comes first in the order gets it
  const prioritized = { priority_groups: ["jobs"], priority_policy: "prioritized" };
  await step("prioritized", add("r", { ...prioritized, deliver_policy: "new" }));
  await step("the lower number first", async () => {
    const ask = async (client, priority, waiting) => {
      const c = await client.consumers.get("JG", "r");
      const messages = await c.fetch({ ...one, group: "jobs", priority });
      const got = collect(messages);
      await until(async () => (await jsm.consumers.info("JG", "r")).num_waiting === waiting);
      return { messages, got };
    };
    const late = await ask(js, 5, 1);
    const early = await ask(other, 1, 2);
    await publish(1);
    const first = await early.got;
    late.messages.stop();
    return [await late.got, first].map((messages) => messages.length);
  });
  await step("bad policy", add("x", { priority_groups: ["a"], priority_policy: "fastest" }));
  await step("no groups", add("x", { priority_policy: "overflow" }));
  await step("bad group", add("x", { priority_groups: ["a b"], priority_policy: "overflow" }));

  // pausing
  await add("s", {});
  const future = new Date(Date.now() + 3600e3);
  const remaining = ({ paused, pause_remaining }) => [paused, pause_remaining > 3000e9];
  await step("pause", jsm.consumers.pause("JG", "s", future).then(remaining));
  await step("paused", jsm.consumers.info("JG", "s").then(remaining));
  await step("nothing comes", async () => {
    const c = await js.consumers.get("JG", "s");
    return patiently(async () => collect(await c.fetch({ max_messages: 1, expires: 1000 })));
  });
  await step("resume", async () => {
    const { paused } = await jsm.consumers.resume("JG", "s");
    const c = await js.consumers.get("JG", "s");
    return [paused, (await c.next({ expires: 20000 })).seq];
  });
  await step("created paused", add("t", { pause_until: future.toISOString() }).then(remaining));
  await step("pause in the past", async () => {
    const { paused } = await jsm.consumers.pause("JG", "t", new Date(1000));
    return paused;
  });
  await second.close();
  await jsm.streams.delete("JG");
});
