/** jetgate over HTTP: publish, consume and key-value, safe to repeat and hard to interrupt. */
export * from "./client.js";
export { Delivery, type AckOptions, type ConsumeOptions } from "./consuming.js";
export { CoreMessage, SocketDelivery, type Dropped } from "./deliveries.js";
export * from "./errors.js";
export type { Event } from "./events.js";
export type * as api from "./generated/types.gen.js";
export { Bucket, Entry, type Change, type Operation, type WatchOptions } from "./kv.js";
export {
  DigestMismatch,
  DigestMissing,
  Download,
  ObjectStore,
  type Content,
  type ObjectChange,
  type ObjectInfo,
  type Part,
  type PutObjectOptions,
} from "./objects.js";
export { Message, type Json, type Payload } from "./payloads.js";
export type { Outcome, Outgoing, PublishOptions, Receipt } from "./publishing.js";
export type { Retry } from "./retrying.js";
export { Socket, type FeedOptions, type SocketOptions } from "./socket.js";
export { Gap, type TailOptions } from "./tail.js";
export type { Token } from "./transport.js";
