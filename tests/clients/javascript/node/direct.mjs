// Direct Get: node direct.mjs nats://HOST:PORT
// Subject: message get
import { jetstream } from "./packages.mjs";
import { brief, collect, forget, main, numbered, step } from "./transcript.mjs";

await main(async (nc) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const js = jsm.jetstream();
  await forget(jsm, "JD", "JD_NO");
  await jsm.streams.add({ name: "JD", subjects: ["jd.>"], allow_direct: true });
  await jsm.streams.add({ name: "JD_NO", subjects: ["jdno"], allow_direct: false });
  for (let n = 1; n <= 30; n++) await js.publish(`jd.${n % 5}`, `m${n}`);
  const middle = (await jsm.streams.getMessage("JD", { seq: 15 })).timestamp;
  await jsm.streams.deleteMessage("JD", 7);

  const one = (query) => async () => {
    const m = await jsm.direct.getMessage("JD", query);
    return m && [numbered(m), m.stream, typeof m.timestamp];
  };
  await step("by sequence", one({ seq: 3 }));
  await step("deleted", one({ seq: 7 }));
  await step("last of a subject", one({ last_by_subj: "jd.2" }));
  await step("last of none", one({ last_by_subj: "jd.none" }));
  await step("next of a subject", one({ seq: 8, next_by_subj: "jd.2" }));
  await step("next of a wildcard", one({ seq: 8, next_by_subj: "jd.*" }));
  await step("by time", one({ start_time: middle }));
  await step("of a stream that does not allow it", jsm.direct.getMessage("JD_NO", { seq: 1 }));

  const batch = (options) => async () => {
    const pick = (m) => [numbered(m), m.pending, m.lastSequence];
    return collect(await jsm.direct.getBatch("JD", options), pick);
  };
  await step("batch", batch({ seq: 5, batch: 4 }));
  await step("batch of a subject", batch({ seq: 1, batch: 3, next_by_subj: "jd.1" }));
  await step("batch at the end", batch({ seq: 29, batch: 10 }));
  await step("batch beyond the end", batch({ seq: 31, batch: 10 }));
  await step("batch by time", batch({ start_time: middle, batch: 2 }));
  await step("batch of bytes", batch({ seq: 1, batch: 10, max_bytes: 60 }));
  await step("batch with callback", async () => {
    const got = [];
    await new Promise((resolve, reject) => {
      const callback = (done, m) => {
        if (done) done.err ? reject(done.err) : resolve();
        else got.push(brief(m));
      };
      jsm.direct.getBatch("JD", { seq: 28, batch: 3, callback });
    });
    return got;
  });

  const last = (options) => async () =>
    collect(await jsm.direct.getLastMessagesFor("JD", options), (m) => [numbered(m), m.pending]);
  await step("last of many", last({ multi_last: ["jd.1", "jd.3", "jd.none"] }));
  await step("last of a wildcard", last({ multi_last: ["jd.*"] }));
  await step("last up to a sequence", last({ multi_last: ["jd.*"], up_to_seq: 10 }));
  await step("last up to a time", last({ multi_last: ["jd.1"], up_to_time: middle }));
  await step("last, a few", last({ multi_last: ["jd.*"], batch: 2 }));
  await step("last of nothing", last({ multi_last: ["jd.none"] }));
  await forget(jsm, "JD", "JD_NO");
});
