// Messages that are sent later: node schedules.mjs nats://HOST:PORT
// Subject: schedules
import { jetstream } from "./packages.mjs";
import { brief, forget, main, step, until } from "./transcript.mjs";

await main(async (nc) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const js = jsm.jetstream();
  await forget(jsm, "JL", "JL_NO");
  const stream = { name: "JL", subjects: ["jl.>"], allow_msg_schedules: true, allow_direct: true };
  const made = await step("supported", jsm.streams.add(stream));
  if (made instanceof Error) return;
  await jsm.streams.add({ name: "JL_NO", subjects: ["jlno.>"] });

  const later = (ms, target) => ({
    schedule: { specification: { at: new Date(Date.now() + ms) }, target },
  });
  await step("at", js.publish("jl.when.a", "later", later(1000, "jl.sent.a")));
  await step("sent", async () => {
    const sent = () => jsm.streams.getMessage("JL", { last_by_subj: "jl.sent.a" }).catch(() => null);
    return brief(await until(sent));
  });
  await step("not to itself", js.publish("jl.when.b", "x", later(1000, "jl.when.b")));
  await step("not allowed", js.publish("jlno.a", "x", later(1000, "jlno.b")));
  await forget(jsm, "JL", "JL_NO");
});
