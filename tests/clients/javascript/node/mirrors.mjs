// Streams and buckets that follow others: node mirrors.mjs nats://HOST:PORT
// Subject: mirrors and sources
import { jetstream, kv } from "./packages.mjs";
import { collect, forget, main, numbered, step, until } from "./transcript.mjs";

const ALL = ["JM", "JM_MIRROR", "JM_OTHER", "JM_ALL", "JM_TWO", "KV_jm", "KV_jm_copy", "KV_jm_mix"];

/** Settings and contents of an info, without how far away the origin is. */
function settled({ config, state, mirror, sources }) {
  const origin = (o) => o && { ...o, active: 0 };
  return { config, state, mirror: origin(mirror), sources: sources?.map(origin) };
}

await main(async (nc) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const js = jsm.jetstream();
  await forget(jsm, ...ALL);
  await jsm.streams.add({ name: "JM", subjects: ["jm.>"], allow_direct: true });
  await jsm.streams.add({ name: "JM_OTHER", subjects: ["jmo.>"] });
  for (let n = 1; n <= 6; n++) await js.publish(`jm.${n % 2}`, `m${n}`);
  await js.publish("jmo.a", "o1");
  const holds = (name, count) =>
    until(async () => (await jsm.streams.info(name)).state.messages === count);
  const contents = async (name) => {
    const last = (await jsm.streams.info(name)).state.last_seq;
    const got = [];
    for (let seq = 1; seq <= last; seq++) {
      const m = await jsm.streams.getMessage(name, { seq });
      if (m) got.push([numbered(m), m.header.get("Nats-Stream-Source")]);
    }
    return got;
  };

  const mirror = { name: "JM_MIRROR", mirror: { name: "JM" }, mirror_direct: true };
  const made = await step("supported", jsm.streams.add(mirror).then(({ config }) => config));
  if (made instanceof Error) return;
  await holds("JM_MIRROR", 6);
  await step("mirrored", async () => settled(await jsm.streams.info("JM_MIRROR")));
  await step("same sequences", contents("JM_MIRROR"));
  await js.publish("jm.late", "m7");
  await holds("JM_MIRROR", 7);
  await step("follows", async () => contents("JM_MIRROR"));
  await step("consumed", async () => {
    const o = await js.consumers.get("JM_MIRROR", { filter_subjects: "jm.1" });
    return collect(await o.consume(), (m) => m.string(), 3);
  });
  await step("publish into it", async () => {
    return js.publish("jm.x", "x", { expect: { streamName: "JM_MIRROR" } });
  });
  await step("with subjects", jsm.streams.add({ ...mirror, name: "JM_TWO", subjects: ["two"] }));
  await step("of itself", jsm.streams.add({ name: "JM_TWO", mirror: { name: "JM_TWO" } }));
  await step("and sources", async () =>
    jsm.streams.add({ ...mirror, name: "JM_TWO", sources: [{ name: "JM_OTHER" }] }),
  );
  await step("change the origin", jsm.streams.update("JM_MIRROR", { mirror: { name: "JM_OTHER" } }));

  const sources = [
    { name: "JM", filter_subject: "jm.1", opt_start_seq: 3 },
    { name: "JM_OTHER", subject_transforms: [{ src: "jmo.*", dest: "from.{{wildcard(1)}}" }] },
  ];
  await step("sources", async () => {
    const { config } = await jsm.streams.add({ name: "JM_ALL", subjects: ["jmall"], sources });
    return config;
  });
  await holds("JM_ALL", 3);
  await js.publish("jmall", "own");
  await holds("JM_ALL", 4);
  const text = ([first]) => first.split(" ").slice(1).join(" ");
  await step("of all", async () => (await contents("JM_ALL")).map(text).sort());
  await step("a loop", async () => {
    const looped = [{ name: "JM_ALL" }];
    return jsm.streams.update("JM_OTHER", { subjects: ["jmo.>"], sources: looped });
  });
  await step("missing source", jsm.streams.add({ name: "JM_TWO", sources: [{ name: "JM_NONE" }] }));

  // buckets
  const kvm = new kv.Kvm(nc);
  const origin = await kvm.create("jm");
  await origin.put("a", "1");
  await kvm.create("jm_copy", { mirror: { name: "jm" } });
  const copy = await kvm.open("jm", { streamName: "KV_jm_copy", allow_direct: true });
  await step("mirror of a bucket", async () => {
    await until(async () => (await copy.status()).values === 1);
    return (await copy.get("a")).string();
  });
  await step("write through it", async () => {
    await copy.put("b", "2");
    await until(async () => (await copy.status()).values === 2);
    return [(await origin.get("b")).string(), (await copy.get("b")).string()];
  });
  await step("mixed bucket", async () => {
    const mix = await kvm.create("jm_mix", { sources: [{ name: "jm" }] });
    await until(async () => (await mix.status()).values === 2);
    await mix.put("own", "3");
    return (await collect(await mix.keys())).sort();
  });
  await forget(jsm, ...ALL.reverse());
});
