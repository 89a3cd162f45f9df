// Batches that are stored whole or not at all: node batches.mjs nats://HOST:PORT
// Subject: batches
import { jetstream } from "./packages.mjs";
import { forget, main, step } from "./transcript.mjs";

const anonymous = ({ batch, ...ack }) => [typeof batch, ack];

await main(async (nc) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const js = jsm.jetstream();
  await forget(jsm, "JB", "JB_NO");
  const stream = { name: "JB", subjects: ["jb.>"], allow_atomic: true };
  const made = await step("supported", jsm.streams.add(stream));
  if (made instanceof Error) return;
  await jsm.streams.add({ name: "JB_NO", subjects: ["jbno.>"] });
  const messages = async () => (await jsm.streams.info("JB")).state.messages;

  await step("nothing before the end", async () => {
    const batch = await js.startBatch("jb.a", "1");
    await batch.add("jb.b", "2", { ack: true });
    const before = await messages();
    const ack = await batch.commit("jb.c", "3");
    return [before, anonymous(ack), await messages()];
  });
  await step("abandoned", async () => {
    const batch = await js.startBatch("jb.a", "1");
    batch.add("jb.b", "2");
    await nc.flush();
    return messages();
  });
  await step("refused as a whole", async () => {
    const batch = await js.startBatch("jb.a", "1");
    batch.add("jb.b", "2", { expect: { lastSubjectSequence: 99 } });
    return batch.commit("jb.c", "3").then(anonymous);
  });
  await step("left", messages());
  await step("not allowed", js.startBatch("jbno.a", "1"));
  await forget(jsm, "JB", "JB_NO");
});
