// Key-value buckets: node kv.mjs nats://HOST:PORT
// Subject: key-value
import { jetstream, kv } from "./packages.mjs";
import { collect, forget, main, step, until } from "./transcript.mjs";

const entry = (e) => e && [e.key, e.operation, e.revision, e.string(), e.delta];

await main(async (nc) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const kvm = new kv.Kvm(nc);
  await forget(jsm, "KV_jk", "KV_jk_small", "KV_jk_codec", "KV_jk_slow");
  await step("create", async () => {
    const options = { history: 5, description: "of Node", metadata: { by: "node" } };
    const bucket = await kvm.create("jk", { ...options, maxValueSize: 1000, compression: true });
    return (await bucket.status()).streamInfo;
  });
  const b = await kvm.open("jk", { allow_direct: true });
  await step("open none", async () => (await kvm.open("jk_none")).get("a"));
  await step("bad name", kvm.create("a.b"));

  // writing and reading
  await step("put", b.put("a", "1"));
  await step("get", async () => entry(await b.get("a")));
  await step("get nothing", b.get("none"));
  await step("put again", b.put("a", "2"));
  await step("an older revision", async () => entry(await b.get("a", { revision: 1 })));
  await step("a revision of another key", b.get("b", { revision: 1 }));
  await step("create a key", b.create("b", "new"));
  await step("create it again", b.create("b", "newer"));
  await step("update", b.update("b", "newer", 3));
  await step("update of an old revision", b.update("b", "lost", 3));
  await step("put of a revision", b.put("b", "newest", { previousSeq: 4 }));
  await step("too large", b.put("large", new Uint8Array(1001)));
  await step("bytes", b.put("bytes", new Uint8Array([0, 1, 255])));
  await step("bytes read", async () => Array.from((await b.get("bytes")).value));
  await step("json", async () => {
    await b.put("json", JSON.stringify({ x: [1, "two"] }));
    return (await b.get("json")).json();
  });
  await step("deep key", b.put("x/y.z=1.-_", "deep"));
  await step("bad key", b.put("a..b", "x"));
  await step("bad key with a blank", b.put("a b", "x"));

  // deleting
  await step("delete", b.delete("a"));
  await step("deleted", async () => entry(await b.get("a")));
  await step("create after a delete", b.create("a", "back"));
  await step("delete of an old revision", b.delete("a", { previousSeq: 1 }));
  await step("history", async () => collect(await b.history({ key: "a" }), entry));
  await step("purge", b.purge("a"));
  await step("history after the purge", async () => collect(await b.history({ key: "a" }), entry));
  await step("create after a purge", b.create("a", "again"));
  await step("all of it", async () => collect(await b.history(), entry));
  await step("of some", async () => collect(await b.history({ key: ["a", "b"] }), entry));
  for (let n = 0; n < 8; n++) await b.put("many", String(n));
  await step("five of eight", async () => collect(await b.history({ key: "many" }), entry));
  await step("keys", async () => (await collect(await b.keys())).sort());
  await step("keys of a filter", async () => collect(await b.keys("x/y.>")));
  await step("keys of filters", async () => (await collect(await b.keys(["a", "json"]))).sort());
  await step("no keys", async () => collect(await b.keys("none.*")));

  // watching
  const watch = async (options, there, ...changes) => {
    const watcher = await b.watch(options);
    const got = await collect(watcher, (e) => [...entry(e), e.isUpdate], there, ...changes);
    watcher.stop();
    return got;
  };
  const touch = [() => b.put("w", "w1"), () => b.delete("w")];
  const unseen = async () => {
    await b.delete("w");
    await b.put("w", "w2");
  };
  await step("watch all", watch({}, 6, ...touch));
  await step("watch a key", watch({ key: "b" }, 1, () => b.put("b", "seen")));
  await step("watch keys", watch({ key: ["a", "b"] }, 2));
  await step("watch updates", watch({ include: "updates" }, 0, ...touch));
  await step("watch the history", watch({ key: "many", include: "history" }, 5));
  await step("watch without deletes", watch({ key: "w", ignoreDeletes: true }, 0, touch[0], unseen));
  await b.delete("w");
  await step("watch headers only", watch({ key: "b", headers_only: true }, 1));
  await step("watch from a revision", watch({ resumeFromRevision: 20 }, 3));
  await step("purge of deletes", b.purgeDeletes(0));
  await step("left", async () => collect(await b.history({ key: "w" }), entry));
  await step("delete by wildcard", async () => {
    await b.delete("x/y.>");
    return collect(await b.keys("x/y.>"));
  });

  // the bucket itself
  await step("status", async () => {
    const s = await b.status();
    const { bucket, values, history, ttl, size, replicas, description, compression, metadata } = s;
    const rest = { description, compression, metadata, maxValueSize: s.maxValueSize };
    return { bucket, values, history, ttl, size, replicas, ...rest };
  });
  await step("created again", async () => {
    const same = await kvm.create("jk", { history: 9 });
    return (await same.status()).history;
  });
  await step("list", async () => {
    const found = await collect(kvm.list(), (s) => s.bucket);
    return found.filter((name) => name.startsWith("jk"));
  });
  await step("ttl of the bucket", async () => {
    const slow = await kvm.create("jk_slow", { ttl: 300 });
    await slow.put("gone", "soon");
    await until(async () => (await slow.get("gone")) === null);
    return [(await slow.status()).ttl, await slow.create("gone", "again")];
  });
  await step("full", async () => {
    const small = await kvm.create("jk_small", { max_bytes: 200, storage: "memory" });
    await small.put("k", new Uint8Array(50));
    await small.put("l", new Uint8Array(100));
  });
  await step("codec", async () => {
    const codec = { key: kv.Base64KeyCodec(), value: kv.NoopKvCodecs().value };
    const coded = await kvm.create("jk_codec", { codec });
    await coded.put("with blanks in it", "value");
    const found = await coded.get("with blanks in it");
    return [found.key, found.string(), await collect(await coded.keys())];
  });
  await step("too much history", async () => (await kvm.create("jk_deep", { history: 65 })).bucket);
  await step("destroy", b.destroy());
  await step("gone", b.get("a"));
  await forget(jsm, "KV_jk_small", "KV_jk_codec", "KV_jk_slow", "KV_jk_deep");
});
