// What the TypeScript SDK does, the same in Node and in a page. A scenario throws when it fails.

const QUICK = { first: 0.01, most: 0.05, writesFor: 20 };
const bytes = (text) => new TextEncoder().encode(text);

export function same(found, expected) {
  const [left, right] = [JSON.stringify(found), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${left} instead of ${right}`);
}

export async function thrown(kind, action) {
  try {
    await action();
  } catch (error) {
    if (error instanceof kind) return error;
    throw error;
  }
  throw new Error(`no ${kind.name}`);
}

/** A `fetch` that loses the answers to the next `lose` writes: the server has acted. */
function lossy() {
  const way = { lose: 0, lost: 0 };
  way.fetch = async (input, init) => {
    const answer = await fetch(input, init);
    if (!way.lose || !init?.body) return answer;
    way.lose--;
    way.lost++;
    await answer.arrayBuffer();
    throw new TypeError("lost");
  };
  return way;
}

const PIECE = 65_536; // bytes

/** A `fetch` whose answers break off when `breakConnections` is called; `away`: nothing is reached. */
export function fragile() {
  const open = new Set();
  const breakConnections = () => {
    for (const breakOff of open) breakOff();
    open.clear();
  };
  const fetched = async (input, init) => {
    if (way.away) throw new TypeError("away");
    const answer = await fetch(input, init);
    if (!answer.body || answer.status === 204) return answer;
    const reader = answer.body.getReader();
    let rest = new Uint8Array();
    const body = new ReadableStream({
      start(controller) {
        open.add(() => {
          controller.error(new TypeError("cut"));
          void reader.cancel().catch(() => undefined);
        });
      },
      // In pieces: a browser may have all of a body by now, and there would be nothing left to cut.
      async pull(controller) {
        while (!rest.length) {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          rest = value;
        }
        controller.enqueue(rest.subarray(0, PIECE));
        rest = rest.subarray(PIECE);
      },
      cancel: () => reader.cancel(),
    });
    return new Response(body, answer);
  };
  const way = { breakConnections, fetch: fetched, away: false };
  return way;
}

export const scenarios = {
  async "payloads come as they were sent"({ sdk, js, stream }) {
    const sent = ["", bytes("\u0000"), new Uint8Array([0, 255]), "grüße\u2028zwei", '{"a": 1.10, "b": "}\\""}', "[1 , 2]"];
    await js.putConsumer(stream, "C", { ack_policy: "explicit" });
    const messages = js.consume(stream, "C");
    for (const payload of sent) {
      const { seq } = await js.publish(`${stream}.x`, payload, { headers: { "X-Region": "eu" } });
      const read = await js.message(stream, seq);
      const fetched = (await messages.next()).value;
      const expected = [...(typeof payload === "string" ? bytes(payload) : payload)];
      same([...read.payload], expected);
      same([...fetched.payload], expected);
      same([read.headers["X-Region"], fetched.headers["X-Region"]], [["eu"], ["eu"]]);
      await fetched.ack({ sync: true });
    }
    await messages.return();
    await js.publish(`${stream}.x`, { id: 7 });
    same((await js.lastMessage(stream, `${stream}.x`)).json(), { id: 7 });
    same((await js.api.readConsumer({ path: { stream, consumer: "C" } })).num_ack_pending, 0);
    await thrown(sdk.NotFound, () => js.message(stream, 1000));
  },

  async "a publish whose answer was lost is stored once"({ sdk, url, stream }) {
    const way = lossy();
    const js = sdk.connect(url, { fetch: way.fetch, retry: QUICK });
    way.lose = 3;
    const receipt = await js.publish(`${stream}.x`, "once");
    same([way.lost, receipt.duplicate], [3, true]);
    way.lose = 1;
    const batch = Array.from({ length: 1500 }, (_, i) => ({ subject: `${stream}.é${i}`, payload: { i } }));
    const outcomes = await js.publishMany([...batch, { subject: "nobody.takes" }]);
    same(outcomes.slice(0, -1).map((each) => each.seq), batch.map((_, i) => i + 2));
    same(outcomes.at(-1) instanceof sdk.NotFound && outcomes.at(-1).kind, "no-stream");
    same((await js.api.readStream({ path: { stream } })).state.messages, 1501);
  },

  async "refusals are exceptions"({ sdk, js, stream }) {
    const absent = await thrown(sdk.NotFound, () => js.api.readStream({ path: { stream: "ABSENT" } }));
    same([absent.kind, absent.errCode, absent.status], ["stream-not-found", 10059, 404]);
    await js.publish(`${stream}.x`, "1");
    const changed = await thrown(sdk.PreconditionFailed, () => js.publish(`${stream}.x`, "2", { lastSeq: 0 }));
    same(changed.currentSequence, 1);
    await thrown(sdk.Forbidden, () => js.publish("$SYS.x"));
    await thrown(sdk.BadRequest, () => js.publish("a..b"));
    await thrown(sdk.NotFound, () => js.consume(stream, "ABSENT").next());
    const away = sdk.connect("http://127.0.0.1:9", { retry: { first: 0.01, most: 0.01, writesFor: 0.05 } });
    same((await thrown(sdk.OutcomeUnknown, () => away.publish("x", "", { msgId: "m1" }))).msgId, "m1");
    await thrown(sdk.ConnectionLost, () => away.request("asked"));
    await thrown(sdk.ConnectionLost, () => away.api.listStreams());
  },

  async "consuming goes on after lost connections"({ sdk, url, stream }) {
    const way = fragile();
    const js = sdk.connect(url, { fetch: way.fetch, retry: QUICK });
    // Whom the server has not yet seen leave may be sent a message: it comes again after this time.
    await js.putConsumer(stream, "C", { ack_policy: "explicit", ack_wait: 1e9 });
    const got = new Set();
    const messages = js.consume(stream, "C", { heartbeat: 1 });
    for (let i = 0; i < 6; i++) {
      let next = messages.next();
      if (i % 2) way.breakConnections();
      await js.publish(`${stream}.x`, String(i));
      for (;;) {
        const { value } = await next;
        got.add(value.text());
        await value.ack({ sync: true });
        if (value.text() === String(i)) break;
        next = messages.next();
      }
    }
    same([...got], ["0", "1", "2", "3", "4", "5"]);
    const stop = new AbortController();
    const waiting = js.consume(stream, "C", { signal: stop.signal }).next();
    stop.abort();
    same((await waiting).done, true);
  },

  async "what was fetched and not taken is given back"({ js, stream }) {
    await js.putConsumer(stream, "C", { ack_policy: "explicit", ack_wait: 3600e9 });
    await js.publishMany(Array.from({ length: 10 }, (_, i) => ({ subject: `${stream}.x`, payload: String(i) })));
    const got = [];
    for (let i = 0; i < 2; i++) {
      for await (const message of js.consume(stream, "C")) {
        got.push([message.text(), message.delivered]);
        break;
      }
    }
    same(got, [["0", 1], ["1", 2]]);
  },

  async "every way to acknowledge"({ js, stream }) {
    await js.putConsumer(stream, "C", { ack_policy: "explicit", ack_wait: 3600e9 });
    await js.publishMany(Array.from({ length: 4 }, (_, i) => ({ subject: `${stream}.x`, payload: String(i) })));
    const messages = js.consume(stream, "C", { batch: 4 });
    const take = async () => (await messages.next()).value;
    const [zero, one, two, three] = [await take(), await take(), await take(), await take()];
    await zero.nak({ sync: true });
    const again = await take();
    same([again.text(), again.delivered], ["0", 2]);
    await one.progress({ sync: true });
    await two.term("no use", { sync: true });
    await js.ack([again, one, three], { sync: true });
    await messages.return();
    const info = await js.api.readConsumer({ path: { stream, consumer: "C" } });
    same([info.num_ack_pending, info.num_pending], [0, 0]);
  },

  async "keys of a bucket"({ sdk, url, bucket }) {
    const way = lossy();
    const js = sdk.connect(url, { fetch: way.fetch, retry: QUICK });
    const kv = await js.putBucket(bucket, { history: 5 });
    same(await kv.get("a"), undefined);
    way.lose = 1;
    const first = await kv.create("a", { n: 1 });
    await thrown(sdk.PreconditionFailed, () => kv.create("a", "again"));
    way.lose = 1;
    const second = await kv.update("a", new Uint8Array([0, 1]), first);
    same(way.lost, 2);
    same((await thrown(sdk.PreconditionFailed, () => kv.update("a", "late", first))).currentSequence, second);
    const entry = await kv.get("a");
    same([entry.revision, [...entry.value]], [second, [0, 1]]);
    same((await kv.get("a", { revision: first })).json(), { n: 1 });
    await kv.put("b/c", "text");
    same(await kv.keys(), ["a", "b/c"]);
    await kv.delete("a");
    same((await kv.history("a")).map((each) => [each.operation, each.text()]), [["PUT", '{"n":1}'], ["PUT", "\u0000\u0001"], ["DEL", ""]]);
    await kv.purge("a");
    same((await kv.history("a")).map((each) => each.operation), ["PURGE"]);
  },

  async "a watch misses nothing when it is broken"({ sdk, url, bucket }) {
    const way = fragile();
    const js = sdk.connect(url, { fetch: way.fetch, retry: QUICK });
    const kv = await js.putBucket(bucket, { history: 5 });
    await kv.put("a", "0");
    const seen = [];
    for await (const { event, entry } of kv.watch()) {
      seen.push(entry ? entry.text() : event);
      if (event === "ready") {
        await kv.put("a", "1");
      } else if (seen.length > 2 && seen.length < 6) {
        way.breakConnections();
        await kv.put("a", String(seen.length - 1));
      } else if (seen.length === 6) {
        break;
      }
    }
    same(seen, ["0", "ready", "1", "2", "3", "4"]);
  },

  async "objects go up and come down, and a broken download goes on"({ sdk, url, bucket }) {
    const way = fragile();
    const js = sdk.connect(url, { fetch: way.fetch, retry: QUICK });
    const store = await js.putStore(bucket, { description: "of a test" });
    const whole = new Uint8Array(1_500_000).map((_, i) => (i * i) >> 3);
    const forms = [whole, new Blob([whole])];
    if (!globalThis.document) forms.push(new Blob([whole]).stream()); // pages only over TLS
    for (const content of forms) {
      const { size, revision } = await store.put("a/b", content, { mediaType: "image/png" });
      const download = await store.open("a/b");
      same([size, download.size, download.revision], [whole.length, whole.length, revision]);
      same(download.headers.get("content-type"), "image/png");
      let broken = 0;
      let at = 0;
      for await (const piece of download) {
        same(piece.every((each, i) => each === whole[at + i]), true);
        at += piece.length;
        if (broken++ < 2) way.breakConnections();
      }
      same(at, whole.length);
    }
    same([...(await store.get("a/b", { begin: 70_000, end: 70_003 }))], [...whole.subarray(70_000, 70_003)]);
    await store.put("text", "grüße", { headers: { "X-Owner": "me" } });
    const read = await new Response((await store.open("text")).stream()).text();
    same(read, "grüße");
    const shown = await store.open("text"); // in a page all of it only where the server exposes it
    same([shown.isChecked, shown.headers.get("nats-h-x-owner")], [true, "me"]);
    await store.put("nothing", "");
    same((await store.get("nothing")).length, 0);
    const changed = await store.put("changing", whole);
    const stale = await store.open("changing");
    const pieces = stale[Symbol.asyncIterator]();
    await pieces.next();
    await store.put("changing", whole.slice().reverse(), { revision: changed.revision });
    way.breakConnections();
    await thrown(sdk.Conflict, async () => {
      while (!(await pieces.next()).done);
    });
    await thrown(sdk.PreconditionFailed, () => store.put("changing", "", { revision: 0 }));
  },

  async "what is known of objects, and their watch"({ sdk, url, bucket }) {
    const way = fragile();
    const js = sdk.connect(url, { fetch: way.fetch, retry: QUICK });
    const store = await js.putStore(bucket);
    same(await store.info("a"), undefined);
    await thrown(sdk.NotFound, () => store.get("a"));
    const put = await store.put("a", "1", { description: "one" });
    const known = await store.update("a", { name: "b", metadata: { keep: "a year" } });
    same([known.name, known.description, known.metadata, known.digest], ["b", "one", { keep: "a year" }, put.digest]);
    await store.link("latest", "b");
    same(new TextDecoder().decode(await store.get("latest")), "1");
    same((await store.list()).map((each) => each.name), ["b", "latest"]);
    const seen = [];
    for await (const { event, info } of store.watch()) {
      seen.push([event, info?.name]);
      way.breakConnections();
      if (event === "ready") await store.delete("b");
      if (event === "delete" && info.name === "b") break;
    }
    const names = (await store.list({ deleted: true })).filter((each) => each.deleted);
    same(names.some((each) => each.name === "b"), true);
    same(seen.slice(-2), [["ready", undefined], ["delete", "b"]]);
  },

  async "advisories and requests"({ sdk, js, stream }) {
    const stop = new AbortController();
    const events = js.advisories({ subject: "ADVISORY.CONSUMER.CREATED.>", signal: stop.signal });
    let found;
    const next = events.next().then(({ value }) => (found = value));
    for (let i = 0; !found; i++) await js.putConsumer(stream, `C${i}`);
    await next;
    same([found.kind, found.data.stream], ["consumer_action", stream]);
    stop.abort();
    same((await events.next()).done, true);
    same((await js.request(`${stream}.x`, "asked")).json(), { stream, seq: 1 });
    const nobody = await thrown(sdk.ServerProblem, () => js.request("nobody.there", "", { within: 1 }));
    same(nobody.kind, "no-responders");
  },
};

/** Run every scenario with a stream and a bucket of its own; the names of those that passed. */
export async function run(sdk, url, prefix, all = scenarios) {
  const passed = [];
  for (const [index, [name, scenario]] of Object.entries(all).entries()) {
    const js = sdk.connect(url, { retry: QUICK });
    const stream = `${prefix}${index}`;
    const bucket = `${prefix}B${index}`;
    await js.putStream(stream, { subjects: [`${stream}.>`], allow_direct: true });
    try {
      await scenario({ sdk, url, js, stream, bucket });
    } catch (error) {
      throw new Error(`${name}: ${error?.stack ?? error}`);
    }
    await js.api.deleteStream({ path: { stream } });
    await js.api.deleteKvBucket({ path: { bucket } }).catch(() => undefined);
    await js.api.deleteObjectStore({ path: { bucket } }).catch(() => undefined);
    passed.push(name);
  }
  return passed;
}
