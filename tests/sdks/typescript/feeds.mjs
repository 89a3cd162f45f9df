// Feeds of the TypeScript SDK, over server-sent events and WebSocket, that break and go on.
import { fragile, same, thrown } from "./scenarios.mjs";

const QUICK = { first: 0.01, most: 0.05, writesFor: 20 };

/** WebSockets that break off when `breakConnections` is called, or when a receipt is to be lost. */
function brittle() {
  const open = new Set();
  const way = { lose: 0, away: false, breakConnections: () => open.forEach((socket) => socket.close()) };
  way.WebSocket = class extends WebSocket {
    constructor(url, protocols) {
      super(way.away ? "ws://127.0.0.1:9" : url, protocols);
      open.add(this);
      this.addEventListener("close", () => open.delete(this));
    }

    set onmessage(take) {
      super.onmessage = (event) => {
        if (!way.lose || !event.data.includes('"published"')) return take(event);
        way.lose--;
        this.close();
      };
    }
  };
  return way;
}

/** WebSockets whose messages come, after `hold`, when their feed is left: it resolves with the first. */
function late() {
  const kept = [];
  let came;
  const way = { hold: () => new Promise((resolve) => (came = resolve)) };
  way.WebSocket = class extends WebSocket {
    set onmessage(take) {
      super.onmessage = (event) => {
        if (!came || !event.data.includes('"type":"msg"')) return take(event);
        kept.push(() => take(event));
        came();
      };
    }

    send(data) {
      super.send(data);
      if (!data.includes('"unsub"')) return;
      came = undefined;
      kept.splice(0).forEach((give) => give());
    }
  };
  return way;
}

/** Follow a stream that is published to, cut now and then; then purge it while it is away. */
async function followed({ sdk, js, stream, messages, way, publish }) {
  const seen = [];
  await js.publish(`${stream}.x`, "0");
  for await (const message of messages) {
    if (message instanceof sdk.Gap) {
      seen.push("gap");
      break;
    }
    seen.push(message.text());
    const next = seen.length;
    if (next === 6) {
      way.away = true;
      way.breakConnections();
      await js.publish(`${stream}.x`, "gone");
      await js.api.purgeStream({ path: { stream }, body: {} });
      way.away = false;
    } else {
      if (next % 2) way.breakConnections();
      await publish(`${stream}.x`, String(next));
    }
  }
  same(seen, ["0", "1", "2", "3", "4", "5", "gap"]);
}

export const feeds = {
  async "a tail over server-sent events"({ sdk, url, js, stream }) {
    const way = fragile();
    const cuttable = sdk.connect(url, { fetch: way.fetch, retry: QUICK });
    const messages = cuttable.tail(stream, { begin: "all" });
    const publish = (...said) => cuttable.publish(...said);
    await followed({ sdk, js, stream, messages, way, publish });
  },

  async "a tail over a socket"({ sdk, js, stream }) {
    const way = brittle();
    const socket = js.socket({ WebSocket: way.WebSocket });
    const messages = socket.tail(stream, { begin: "all" });
    const publish = (...said) => socket.publish(...said);
    await followed({ sdk, js, stream, messages, way, publish });
    socket.close();
  },

  async "a publish over a socket whose receipt was lost"({ sdk, js, stream }) {
    const way = brittle();
    const socket = js.socket({ WebSocket: way.WebSocket });
    way.lose = 2;
    const { seq, duplicate } = await socket.publish(`${stream}.x`, '{"a": 1.10}', { headers: { "X-A": "b" } });
    same([way.lose, seq, duplicate], [0, 1, true]);
    const message = await js.message(stream, 1);
    same([message.text(), message.headers["X-A"]], ['{"a": 1.10}', ["b"]]);
    const asked = [await socket.message(stream, 1), await socket.lastMessage(stream, `${stream}.x`)];
    same(asked.map((each) => [each.text(), each.seq, each.stream]), Array(2).fill(['{"a": 1.10}', 1, stream]));
    await thrown(sdk.NotFound, () => socket.message(stream, 99));
    same((await thrown(sdk.Problem, () => socket.publish(`${stream}.x`, "x".repeat(3 << 20)))).status, 413);
    same((await socket.request(`${stream}.x`, "asked")).json(), { stream, seq: 2 });
    await thrown(sdk.PreconditionFailed, () => socket.publish(`${stream}.x`, "", { lastSeq: 1 }));
    socket.close();
    await thrown(sdk.ConnectionLost, () => socket.publish(`${stream}.x`));
  },

  async "a consumer over a socket"({ sdk, js, stream }) {
    const way = brittle();
    const socket = js.socket({ WebSocket: way.WebSocket });
    await js.putConsumer(stream, "C", { ack_policy: "explicit", ack_wait: 3600e9 });
    await js.publishMany(Array.from({ length: 300 }, (_, i) => ({ subject: `${stream}.x`, payload: { i } })));
    const seen = new Set();
    let again = false;
    for await (const message of socket.consume(stream, "C", { credit: 100 })) {
      const { i } = message.json();
      if (i === 7 && message.delivered === 1) await message.nak();
      else await message.ack();
      seen.add(i);
      again ||= i === 7 && message.delivered === 2;
      if (again && seen.size === 300) break;
    }
    same((await js.api.readConsumer({ path: { stream, consumer: "C" } })).num_ack_pending, 0);
    const absent = await thrown(sdk.NotFound, () => socket.consume(stream, "ABSENT").next());
    same(absent.kind, "consumer-not-found");
    socket.close();
  },

  async "what was on its way to a consumer over a socket is given back"({ js, stream }) {
    const way = late();
    const [socket, other] = [0, 1].map(() => js.socket({ WebSocket: way.WebSocket }));
    await js.putConsumer(stream, "C", { ack_policy: "explicit", ack_wait: 3600e9 });
    await js.publish(`${stream}.x`, "0");
    const work = socket.consume(stream, "C");
    await (await work.next()).value.ack();
    const held = way.hold();
    await js.publish(`${stream}.x`, "1");
    await held;
    await work.return();
    const { value } = await other.consume(stream, "C").next();
    same([value.text(), value.delivered], ["1", 2]);
    socket.close();
    other.close();
  },

  async "a feed of large messages over a socket"({ js, stream }) {
    const way = brittle();
    const socket = js.socket({ WebSocket: way.WebSocket });
    await js.putConsumer(stream, "C", { ack_policy: "explicit" });
    const payload = "x".repeat(30_000);
    await js.publishMany(Array.from({ length: 40 }, () => ({ subject: `${stream}.x`, payload })));
    const work = socket.consume(stream, "C", { creditBytes: 100_000 });
    await work.next();
    for (let i = 0; i < 3; i++) await socket.message(stream, 1); // whatever is on its way has come
    const held = (await js.api.readConsumer({ path: { stream, consumer: "C" } })).num_ack_pending;
    same(held >= 1 && held <= 5, true);
    await work.return();
    const seen = [];
    for await (const { seq } of socket.tail(stream, { begin: "all", creditBytes: 70_000 })) {
      seen.push(seq);
      if (seq === 20) way.breakConnections();
      if (seq === 40) break;
    }
    same(seen, Array.from({ length: 40 }, (_, i) => i + 1));
    socket.close();
  },

  async "what is published to a subject, over a socket"({ js, stream }) {
    const way = brittle();
    const socket = js.socket({ WebSocket: way.WebSocket });
    const heard = [];
    const subject = `free.${stream}`;
    let speaking = true;
    const speak = async () => {
      for (let i = 0; speaking; i++) await js.request(subject, String(i), { within: 0.1 }).catch(() => undefined);
    };
    const spoken = speak();
    for await (const message of socket.listen(subject)) {
      heard.push("dropped" in message ? "missed" : "heard");
      if (heard.length === 1) way.breakConnections();
      if (heard.at(-1) === "heard" && heard.includes("missed")) break;
    }
    speaking = false;
    socket.close();
    await spoken;
    same([...new Set(heard)], ["heard", "missed"]);
  },
};
