// Batches that are stored as they come, acknowledged many at a time: node ingest.mjs nats://HOST:PORT
// Subject: batches
import { jetstream, unexposed } from "./packages.mjs";
import { forget, main, step } from "./transcript.mjs";

const anonymous = ({ batch, ...ack }) => [typeof batch, ack];

await main(async (nc) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const start = (...batch) => unexposed.startFastIngest(nc, ...batch);
  await forget(jsm, "JF", "JF_NO");
  const stream = { name: "JF", subjects: ["jf.>"], allow_batched: true };
  const made = await step("supported", jsm.streams.add(stream));
  if (made instanceof Error) return;
  await jsm.streams.add({ name: "JF_NO", subjects: ["jfno.>"] });
  const messages = async () => (await jsm.streams.info("JF")).state.messages;

  await step("many", async () => {
    const batch = await start("jf.a", "1", { allowGaps: false, ackInterval: 50 });
    for (let place = 2; place < 1000; place++) await batch.add("jf.a", `${place}`);
    const ping = await batch.ping();
    const ack = await batch.last("jf.a", "1000");
    const acks = [ack, await batch.done()].map(anonymous);
    return [ping.batchSeq, ping.ackSeq, acks, await messages()];
  });
  await step("an end of its own", async () => {
    const batch = await start("jf.b", "1", { allowGaps: true });
    await batch.add("jf.b", "2", { msgID: "twice" });
    await batch.add("jf.b", "3", { msgID: "twice" });
    return [anonymous(await batch.end()), await messages()];
  });
  await step("refused", async () => {
    const batch = await start("jf.c", "1", { allowGaps: false });
    batch.add("jf.c", "2", { expect: { lastSequence: 1 } });
    return anonymous(await batch.done());
  });
  await step("left", messages());
  await step("not allowed", start("jfno.a", "1", { allowGaps: false }));
  await forget(jsm, "JF", "JF_NO");
});
