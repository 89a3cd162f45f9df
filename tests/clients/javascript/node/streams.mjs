// Management of streams: node streams.mjs nats://HOST:PORT
// Subject: streams
import { jetstream } from "./packages.mjs";
import { collect, forget, main, numbered, step } from "./transcript.mjs";

await main(async (nc) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const js = jsm.jetstream();
  await forget(jsm, "JS_A", "JS_B", "JS_C", "JS_SEALED", "JS_LIMITED");

  await step("account", async () => {
    const { limits, api, domain } = await jsm.getAccountInfo();
    return { limits, level: api.level, domain };
  });

  // creating, in every way a field can be set
  const a = { name: "JS_A", subjects: ["js.a.>"], description: "first", metadata: { by: "node" } };
  await step("add", jsm.streams.add(a));
  await step("add the same", jsm.streams.add(a));
  await step("add another of that name", jsm.streams.add({ ...a, subjects: ["js.z"] }));
  await step("add overlapping", jsm.streams.add({ name: "JS_B", subjects: ["js.a.x"] }));
  await step(
    "add with everything",
    jsm.streams.add({
      name: "JS_B",
      subjects: ["js.b.*", "js.bb"],
      retention: "interest",
      storage: "memory",
      discard: "new",
      discard_new_per_subject: true,
      max_msgs_per_subject: 3,
      max_msgs: 100,
      max_bytes: 100000,
      max_age: 3600e9,
      max_msg_size: 1000,
      max_consumers: 4,
      duplicate_window: 5e9,
      allow_rollup_hdrs: true,
      allow_direct: true,
      deny_delete: true,
      no_ack: false,
      first_seq: 50,
      compression: "s2",
      consumer_limits: { max_ack_pending: 20, inactive_threshold: 60e9 },
      republish: { src: "js.b.*", dest: "copy.{{wildcard(1)}}" },
      subject_transform: { src: "js.bb", dest: "js.b.b" },
    }),
  );
  await step("name without", jsm.streams.add({ name: "" }));
  await step("name with a dot", jsm.streams.add({ name: "a.b" }));
  await step("bad subject", jsm.streams.add({ name: "JS_C", subjects: ["js..x"] }));
  await step("too many replicas", jsm.streams.add({ name: "JS_C", num_replicas: 3 }));
  await step("no subjects", jsm.streams.add({ name: "JS_C" }));

  // finding
  await step("names", collect(jsm.streams.names("js.>")));
  await step("names of one", jsm.streams.names("js.b.1").next());
  await step("list", collect(jsm.streams.list("js.a.>"), (info) => info.config.name));
  await step("find", jsm.streams.find("js.a.q"));
  await step("find nothing", jsm.streams.find("js.nobody"));
  await step("info of none", jsm.streams.info("JS_NONE"));

  async function* ofThis() {
    for await (const told of jsm.advisories()) {
      if (JSON.stringify(told.data).includes("JS_TOLD")) yield told; // others end their own things
    }
  }
  await step("advisories", async () => {
    const told = collect(ofThis(), ({ kind, data }) => [kind, data.stream, data.action], 4);
    await nc.flush();
    await jsm.streams.add({ name: "JS_TOLD" });
    await jsm.streams.delete("JS_TOLD");
    return (await told).sort();
  });

  // contents
  for (const n of [1, 2, 3, 4, 5, 6]) await js.publish(`js.a.${n % 3}`, `m${n}`);
  await step("info", jsm.streams.info("JS_A"));
  await step("subjects", jsm.streams.info("JS_A", { subjects_filter: "js.a.>" }));
  await step("subjects filtered", jsm.streams.info("JS_A", { subjects_filter: "js.a.1" }));
  await step("get", async () => numbered(await jsm.streams.getMessage("JS_A", { seq: 2 })));
  await step("get last", async () =>
    numbered(await jsm.streams.getMessage("JS_A", { last_by_subj: "js.a.1" })),
  );
  await step("get nothing", jsm.streams.getMessage("JS_A", { seq: 99 }));
  await step("delete a message", jsm.streams.deleteMessage("JS_A", 2));
  await step("delete a message, not erased", jsm.streams.deleteMessage("JS_A", 4, false));
  await step("delete it again", jsm.streams.deleteMessage("JS_A", 4));
  await step("what is deleted", async () => {
    const { state } = await jsm.streams.info("JS_A", { deleted_details: true });
    return state;
  });
  await step("purge one subject", jsm.streams.purge("JS_A", { filter: "js.a.0" }));
  await step("purge up to", jsm.streams.purge("JS_A", { seq: 2 }));
  await step("purge but one", jsm.streams.purge("JS_A", { keep: 1 }));
  await step("purge keep and seq", jsm.streams.purge("JS_A", { keep: 1, seq: 2 }));
  await step("purge", jsm.streams.purge("JS_A"));
  await step("state", async () => (await jsm.streams.info("JS_A")).state);

  // changing
  await step("update", jsm.streams.update("JS_A", { max_msgs: 2, subjects: ["js.a.>", "js.aa"] }));
  await step("update storage", jsm.streams.update("JS_A", { storage: "memory" }));
  await step("update retention", jsm.streams.update("JS_B", { retention: "limits" }));
  await step("update none", jsm.streams.update("JS_NONE", { subjects: ["js.none"] }));
  await step("delete where denied", async () => {
    await js.publish("js.b.1", "x");
    return jsm.streams.deleteMessage("JS_B", 50);
  });

  // limits, as a publisher meets them
  const small = { discard: "new", max_msgs: 2, max_msg_size: 10 };
  await jsm.streams.add({ name: "JS_LIMITED", subjects: ["js.l"], ...small });
  await step("fits", js.publish("js.l", "1"));
  await step("too large", js.publish("js.l", "12345678901"));
  await step("fills", js.publish("js.l", "2"));
  await step("full", js.publish("js.l", "3"));

  // sealing
  await jsm.streams.add({ name: "JS_SEALED", subjects: ["js.s"] });
  await js.publish("js.s", "kept");
  await step("seal", jsm.streams.update("JS_SEALED", { sealed: true }));
  await step("publish to sealed", js.publish("js.s", "more"));
  await step("purge sealed", jsm.streams.purge("JS_SEALED"));
  await step("unseal", jsm.streams.update("JS_SEALED", { sealed: false }));

  // the stream as an object
  const stream = await js.streams.get("JS_SEALED");
  await step("stream", async () => [stream.name, (await stream.info(true)).state.messages]);
  await step("stream get", async () => numbered(await stream.getMessage({ seq: 1 })));
  await step("stream delete a message", stream.deleteMessage(1));
  await step("alternates", async () => (await stream.alternates()).map((a) => a.name));
  await step("best", async () => (await stream.best()).name);

  for (const name of ["JS_A", "JS_B", "JS_C", "JS_LIMITED", "JS_SEALED"]) {
    await step(`delete ${name}`, jsm.streams.delete(name));
  }
  await step("delete again", jsm.streams.delete("JS_A"));
  await step("nothing left", collect(jsm.streams.names("js.>")));
});
