// A server that goes away and comes back: node restart.mjs nats://HOST:PORT
// Says "killed?" on stderr when it wants the server to be killed and started again.
// Subject: protocol
import { jetstream, kv } from "./packages.mjs";
import { collect, dial, step, until } from "./transcript.mjs";

const nc = await dial(process.argv[2], { reconnectTimeWait: 50, maxReconnectAttempts: -1 });
const jsm = await jetstream.jetstreamManager(nc);
const js = jsm.jetstream();
await jsm.streams.add({ name: "JK", subjects: ["jk.>"], allow_direct: true });
await jsm.consumers.add("JK", { durable_name: "d", ack_policy: "explicit" });
const bucket = await new kv.Kvm(nc).create("jk");
for (let n = 1; n <= 6; n++) await js.publish("jk.a", `m${n}`, { msgID: `id-${n}` });
await bucket.put("key", "before");
const consumer = await js.consumers.get("JK", "d");
for await (const m of await consumer.fetch({ max_messages: 2, expires: 20000 })) await m.ackAck();
const ordered = await js.consumers.get("JK");
const followed = [];
const following = collect(await ordered.consume({ expires: 2000 }), (m) => followed.push(m.seq), 7);
await until(() => followed.length === 6);
const sub = nc.subscribe("core.only");
const statuses = [];
collect(nc.status(), (s) => statuses.push(s.type));

console.error("killed?");
await until(() => statuses.includes("reconnect"), 60000);

await step("subscribed still", async () => {
  nc.publish("core.only", "hello");
  await until(() => sub.getReceived() === 1);
});
await step("known already", async () => {
  const again = () => js.publish("jk.a", "m6", { msgID: "id-6" }).catch(() => null);
  const { seq, duplicate } = await until(again, 60000);
  return [seq, duplicate];
});
await step("after it", js.publish("jk.a", "m7"));
await step("acknowledged once", async () => {
  const got = [];
  for await (const m of await consumer.fetch({ max_messages: 3, expires: 20000 })) {
    await m.ackAck();
    got.push(m.string());
  }
  return got;
});
await step("kept", async () => (await bucket.get("key")).string());
await step("followed", async () => {
  await following;
  return followed;
});
await nc.close();
