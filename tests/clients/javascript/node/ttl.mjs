// Messages that live for a time, and markers of what is gone: node ttl.mjs nats://HOST:PORT
// Subject: expiry
import { jetstream, kv } from "./packages.mjs";
import { collect, forget, main, step, until } from "./transcript.mjs";

await main(async (nc) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const js = jsm.jetstream();
  await forget(jsm, "JT", "KV_jt", "KV_jt_plain");
  const marking = { allow_msg_ttl: true, subject_delete_marker_ttl: 1e9 };
  const first = { name: "JT", subjects: ["jt.>"], allow_direct: true, ...marking };
  const made = await step("supported", jsm.streams.add(first));
  if (made instanceof Error) return;

  // whoever is to see what lives for a second watches before it begins
  const o = await js.consumers.get("JT", { filter_subjects: "jt.short" });
  const pick = (m) => [m.seq, m.subject, m.string(), m.headers];
  const marked = collect(await o.consume(), pick, 2);
  await step("never", js.publish("jt.never", "2", { ttl: "never" }));
  await step("an hour", js.publish("jt.long", "3", { ttl: "1h" }));
  await step("without", js.publish("jt.none", "4"));
  await step("too short", js.publish("jt.bad", "x", { ttl: "500ms" }));
  await step("no time", js.publish("jt.bad", "x", { ttl: "soon" }));
  await step("a second", js.publish("jt.short", "1", { ttl: "1s" }));
  const kvm = new kv.Kvm(nc);
  const b = await kvm.create("jt", { markerTTL: 1000, history: 3 });
  await step("bucket", async () => (await b.status()).markerTTL);
  await step("create for long", b.create("long", "value", "1h"));
  for (const key of ["purged", "purged_long"]) await b.put(key, "value");
  const watcher = await b.watch({ key: ["short", "purged"], include: "updates" });
  const watched = collect(watcher, (e) => [e.key, e.operation, e.string()], 3);
  await step("create for a second", b.create("short", "value", "1s"));
  await step("purge for a second", b.purge("purged", { ttl: "1s" }));
  await step("purge for long", b.purge("purged_long", { ttl: "1h" }));
  await step("there", async () => {
    return [(await b.get("long")).string(), (await b.get("purged_long")).operation];
  });
  const plain = await kvm.create("jt_plain");
  await step("not allowed", plain.create("short", "value", "1s"));

  await step("gone, and a marker of it", marked);
  await step("watched", watched.then((got) => got.sort())); // which key goes first is a matter of time
  await step("markers go, too", async () => {
    await until(async () => (await jsm.streams.info("JT")).state.messages === 3);
    await until(async () => (await b.status()).values === 2);
    const { state } = await jsm.streams.info("JT", { subjects_filter: ">" });
    return [state.subjects, await b.get("short"), await b.get("purged")];
  });
  await step("create again", b.create("short", "back"));
  await step("keys", async () => (await collect(await b.keys())).sort());

  // by age, too
  await step("aged", async () => {
    await jsm.streams.update("JT", { max_age: 1e9, duplicate_window: 5e8 });
    await until(async () => (await jsm.streams.info("JT")).state.messages === 1);
    const { state } = await jsm.streams.info("JT", { subjects_filter: ">" });
    return state.subjects;
  });
  await forget(jsm, "JT", "KV_jt", "KV_jt_plain");
});
