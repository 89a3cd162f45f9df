// node refusals.mjs SDK URL ACTION NAME: prints what is thrown or found, as JSON.
import { pathToFileURL } from "node:url";

const [, , built, url, action, name] = process.argv;
const sdk = await import(pathToFileURL(built).href);
const js = sdk.connect(url, { retry: { first: 0.01, most: 0.05, writesFor: 20 } });
const large = new Uint8Array(20_000_000);

async function refusal(of) {
  try {
    await of();
    return {};
  } catch (error) {
    return { name: error.name, kind: error.kind };
  }
}

const actions = {
  object: () => refusal(() => js.store("files").put("large", large)),
  publish: () => refusal(() => js.publish(`${name}.x`)),
  name: () => refusal(() => js.store("files").get(name)),
  async messages() {
    const attempts = [
      () => js.publish(`${name}.x`, large),
      () => js.bucket(name).put("a", large),
      () => js.request(`${name}.x`, large),
    ];
    const kinds = [];
    for (const attempt of attempts) kinds.push((await refusal(attempt)).kind);
    return { kinds };
  },
  async many() {
    const payloads = ["1", large.subarray(0, 900_000), large.subarray(0, 1_100_000), "2"];
    const outcomes = await js.publishMany(payloads.map((payload) => ({ subject: `${name}.x`, payload })));
    return { outcomes: outcomes.map((each) => each.seq ?? each.kind) };
  },
  async digest() {
    const store = js.store(name);
    const { name: thrown } = await refusal(() => store.get("bare"));
    const bare = await store.open("bare", { unchecked: true });
    const whole = await store.open("whole");
    const text = new TextDecoder().decode(await bare.bytes());
    await whole.bytes();
    return { name: thrown, text, checked: [bare.isChecked, whole.isChecked] };
  },
};
console.log(JSON.stringify(await actions[action]()));
