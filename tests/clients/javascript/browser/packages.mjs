// The official packages for a page; the bundler takes this file where scripts ask for packages.mjs.
import * as core from "@nats-io/nats-core";
import * as jetstream from "@nats-io/jetstream";
import * as kv from "@nats-io/kv";
import * as obj from "@nats-io/obj";

export { core, jetstream, kv, obj };
export const transport = undefined; // a page has no TCP
