// Object stores: node objects.mjs nats://HOST:PORT
// Subject: object store
import { core, jetstream, obj } from "./packages.mjs";
import { collect, forget, main, same, step } from "./transcript.mjs";

const LARGE = 8 * 1024 * 1024;

/** What an object is, without what its identity decides. */
function about(info) {
  if (!info) return info;
  const { name, description, headers, metadata, size, chunks, digest, deleted, options } = info;
  return { name, description, headers, metadata, size, chunks, digest, deleted, options };
}

function pattern(size) {
  const data = new Uint8Array(size);
  for (let i = 0; i < size; i++) data[i] = (i * 31 + (i >> 8)) & 255;
  return data;
}

function stream(data, piece) {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= data.length) return controller.close();
      controller.enqueue(data.subarray(at, at + piece));
      at += piece;
    },
  });
}

await main(async (nc) => {
  const jsm = await jetstream.jetstreamManager(nc);
  const objm = new obj.Objm(nc);
  await forget(jsm, "OBJ_jo", "OBJ_jo_other");
  await step("create", async () => {
    const store = await objm.create("jo", { description: "of Node", metadata: { by: "node" } });
    return store.status();
  });
  const o = await objm.open("jo");
  await step("open none", objm.open("jo_none"));
  await step("bad name", objm.create("a.b"));

  // putting and getting
  const small = new TextEncoder().encode("a small object");
  await step("put", async () => about(await o.putBlob({ name: "small" }, small)));
  await step("get", o.getBlob("small"));
  await step("get nothing", o.getBlob("none"));
  await step("info", async () => about(await o.info("small")));
  await step("info of nothing", o.info("none"));
  await step("empty", async () => about(await o.putBlob({ name: "empty" }, new Uint8Array())));
  await step("empty read", async () => (await o.getBlob("empty")).length);
  const large = pattern(LARGE);
  await step("large", async () => about(await o.put({ name: "large" }, stream(large, 100000))));
  await step("large read", async () => {
    const { data, error, info } = await o.get("large");
    const pieces = await collect(data);
    let at = 0;
    for (const piece of pieces) {
      if (!same(piece, large.subarray(at, at + piece.length))) break;
      at += piece.length;
    }
    return [at === LARGE, pieces.length, (await error) ?? null, info.size];
  });
  await step("small chunks, headers, metadata", async () => {
    const headers = core.headers();
    headers.set("X-Kind", "test");
    const meta = { name: "with a name/äöü", description: "text", headers, metadata: { a: "b" } };
    const options = { max_chunk_size: 1000 };
    return about(await o.putBlob({ ...meta, options }, pattern(4500)));
  });
  await step("its bytes", async () => (await o.getBlob("with a name/äöü")).length);
  await step("replace", async () => {
    await o.putBlob({ name: "small" }, new TextEncoder().encode("replaced"));
    return o.getBlob("small");
  });
  await step("old chunks are gone", async () => {
    const { state } = await jsm.streams.info("OBJ_jo", { subjects_filter: "$O.jo.C.>" });
    return Object.values(state.subjects).sort();
  });
  await step("of an expected revision", async () => {
    const { revision } = await o.info("small");
    await o.putBlob({ name: "small" }, small, { previousRevision: revision });
    return about(await o.info("small"));
  });
  await step("of another revision", o.putBlob({ name: "small" }, small, { previousRevision: 1 }));

  // a damaged chunk does not go unnoticed
  await step("digest", async () => {
    const { nuid } = await o.putBlob({ name: "broken" }, small);
    const subject = `$O.jo.C.${nuid}`;
    await jsm.streams.purge("OBJ_jo", { filter: subject });
    await jsm.jetstream().publish(subject, "a changed object");
    const error = await o.getBlob("broken").catch((e) => e);
    return error.message.split("\n")[0];
  });

  // names, links, descriptions
  await step("update", async () => {
    await o.update("small", { name: "tiny", description: "renamed" });
    return [about(await o.info("tiny")), await o.info("small"), await o.getBlob("tiny")];
  });
  await step("update to a name in use", o.update("tiny", { name: "empty" }));
  await step("update of nothing", o.update("none", { description: "x" }));
  const other = await objm.create("jo_other");
  await step("link", async () => {
    const linked = await o.link("link", await o.info("tiny"));
    return [about(linked), await o.getBlob("link")];
  });
  await step("link to another store", async () => {
    await other.putBlob({ name: "far" }, new TextEncoder().encode("far away"));
    await o.link("far link", await other.info("far"));
    return o.getBlob("far link");
  });
  await step("link of a link", async () => o.link("again", await o.info("link")));
  await step("link to a store", async () => about(await o.linkStore("store", other)));
  await step("get of a store", o.getBlob("store"));
  await step("link over an object", async () => o.link("empty", await o.info("tiny")));

  // listing and watching
  await step("list", async () => (await o.list()).map((info) => info.name).sort());
  const watch = async (options, there, ...changes) => {
    const watcher = await o.watch(options);
    const pick = (i) => [i.name, i.deleted ?? false, i.isUpdate];
    const got = await collect(watcher, pick, there, ...changes);
    watcher.stop();
    return got;
  };
  const put = () => o.putBlob({ name: "touched" }, small);
  const touch = [put, () => o.delete("touched")];
  const unseen = async () => {
    await o.delete("touched");
    await put();
  };
  await step("watch", watch({ includeHistory: false }, 0, ...touch));
  await step("watch with what is there", watch({ includeHistory: true }, 9, ...touch));
  await step("watch without deletes", watch({ ignoreDeletes: true }, 0, put, unseen));

  // deleting and sealing
  await step("delete", o.delete("large"));
  await step("deleted", async () => about(await o.info("large")));
  await step("get deleted", o.getBlob("large"));
  await step("delete again", o.delete("large"));
  await step("delete nothing", o.delete("none"));
  await step("status", async () => {
    const { bucket, description, size, sealed, storage, metadata, replicas } = await o.status();
    return { bucket, description, small: size < 20000, sealed, storage, metadata, replicas };
  });
  await step("seal", async () => (await o.seal()).sealed);
  await step("put to sealed", o.putBlob({ name: "late" }, small));
  await step("get from sealed", o.getBlob("tiny"));
  await step("stores", async () => {
    const found = await collect(objm.list(), (s) => s.bucket);
    return found.filter((name) => name.startsWith("jo"));
  });
  await step("destroy", o.destroy());
  await step("gone", objm.open("jo"));
  await other.destroy();
});
