/** The public names of the package, for Node and browsers. */

export type * from "./api.js";
export { Client } from "./client/client.js";
export type { ClientEvent, ClientOptions } from "./client/client.js";
export type { ClientRankings, SearchOptions } from "./client/request.js";
export type { Answer, EventCounts, Status } from "./client/fallback.js";
export { LocalStorageSpool, MemorySpool, type Spool } from "./client/spool.js";
export { visitorId, type VisitorId, type VisitorIdOptions } from "./client/visitor_id.js";
export { ClientError, InterleafError, MethodError, RandomnessError, RankingError } from "./errors.js";
export { interleave, type InterleaveOptions, type Interleaving, type ListRecord } from "./interleave.js";
export { keyOf, type Key } from "./randomness.js";
export type { Document, Fixed, Groups, Ranking, Rankings } from "./rankings.js";
