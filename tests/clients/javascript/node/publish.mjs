// Publishing into a stream: node publish.mjs nats://HOST:PORT
// Subject: publish
import { core, jetstream } from "./packages.mjs";
import { brief, collect, forget, main, step, until } from "./transcript.mjs";

await main(async (nc) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const js = jetstream.jetstream(nc);
  await forget(jsm, "JP");
  await jsm.streams.add({ name: "JP", subjects: ["jp.>"], allow_rollup_hdrs: true });

  await step("plain", js.publish("jp.a", "one"));
  await step("empty", js.publish("jp.a"));
  await step("bytes", js.publish("jp.a", new Uint8Array([0, 255, 13, 10])));
  await step("nobody's subject", js.publish("nobody.there", "x", { retries: 0 }));
  await step("nobody's subject, tried again", js.publish("nobody.there", "x", { retries: 2 }));

  // deduplication
  await step("with id", js.publish("jp.a", "two", { msgID: "id-1" }));
  await step("same id", js.publish("jp.b", "other", { msgID: "id-1" }));
  await step("last id", js.publish("jp.a", "3", { expect: { lastMsgID: "id-1" }, msgID: "id-2" }));
  await step("wrong last id", js.publish("jp.a", "4", { expect: { lastMsgID: "id-1" } }));

  // expectations
  const expecting = (expect) => js.publish("jp.a", "expected", { expect });
  await step("stream", expecting({ streamName: "JP" }));
  await step("wrong stream", expecting({ streamName: "OTHER" }));
  await step("sequence", expecting({ lastSequence: 6 }));
  await step("wrong sequence", expecting({ lastSequence: 6 }));
  await step("sequence 0", expecting({ lastSequence: 0 }));
  await step("subject sequence", expecting({ lastSubjectSequence: 7 }));
  await step("wrong subject sequence", expecting({ lastSubjectSequence: 7 }));
  await step("subject sequence 0", async () =>
    js.publish("jp.fresh", "x", { expect: { lastSubjectSequence: 0 } }),
  );
  const others = { lastSubjectSequence: 9, lastSubjectSequenceSubject: "jp.fresh" };
  await step("sequence of others", expecting(others));
  await step("sequence of wildcard", async () =>
    expecting({ lastSubjectSequence: 10, lastSubjectSequenceSubject: "jp.*" }),
  );
  await step("wrong sequence of others", expecting({ ...others, lastSubjectSequence: 1 }));
  await step("subject alone", expecting({ lastSubjectSequenceSubject: "jp.fresh" }));

  // headers
  const h = core.headers();
  h.set("X-One", "1");
  h.append("X-Many", "a");
  h.append("X-Many", "b");
  await step("headers", js.publish("jp.h", "with headers", { headers: h }));
  await step("headers read", async () => {
    const m = await jsm.streams.getMessage("JP", { last_by_subj: "jp.h" });
    return { text: m.string(), header: m.header };
  });
  const rollup = (value) => {
    const headers = core.headers();
    headers.set("Nats-Rollup", value);
    return js.publish("jp.a", `rolled up ${value}`, { headers });
  };
  await step("roll up a subject", rollup("sub"));
  await step("left of it", async () => {
    const { state } = await jsm.streams.info("JP", { subjects_filter: ">" });
    return state.subjects;
  });
  await step("roll up wrongly", rollup("nothing"));
  await step("roll up all", rollup("all"));
  await step("left at all", async () => (await jsm.streams.info("JP")).state.messages);
  await step("time to live not allowed", js.publish("jp.a", "x", { ttl: "10s" }));

  // a plain publish is kept too, and many at once
  nc.publish("jp.plain", "no answer wanted");
  await nc.flush();
  const acks = await Promise.all(
    Array.from({ length: 500 }, (_, n) => js.publish(`jp.many.${n % 7}`, String(n))),
  );
  await step("many", acks.map((ack) => ack.seq).join() === acks.map((_, n) => acks[0].seq + n).join());
  await step("requested", async () => {
    const answer = (await nc.request("jp.raw", "by request", { timeout: 20000 })).json();
    return [answer.stream, typeof answer.seq];
  });

  // what the stream says to listeners
  const events = nc.subscribe("$JS.EVENT.ADVISORY.STREAM.*.JP_EVENTS", { max: 2 });
  await jsm.streams.add({ name: "JP_EVENTS", subjects: ["jpe"] });
  await jsm.streams.update("JP_EVENTS", { description: "changed" });
  await step("advisories", collect(events, (m) => [m.subject, m.json().type, m.json().action]));
  await jsm.streams.delete("JP_EVENTS");

  // without acknowledgement nobody answers
  await jsm.streams.update("JP", { no_ack: true });
  await step("no ack", js.publish("jp.a", "x", { timeout: 200, retries: 0 }));
  await step("stored", async () => {
    const last = () => jsm.streams.getMessage("JP", { last_by_subj: "jp.a" });
    return brief(await until(() => last().then((m) => m.string() === "x" && m)));
  });
  await jsm.streams.delete("JP");
});
