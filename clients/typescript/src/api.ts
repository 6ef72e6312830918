/** Types of the HTTP API and limits of its values, made by `python -m tests.support.typescript_types`. */

/** The title, URL and snippet of a document, as shown to users. */
export interface Caption {
  title?: string | null;
  url?: string | null;
  snippet?: string | null;
  highlights?: Highlight[] | null;
  deep_links?: number | null;
}

/** The user for whom rankers are to be run. */
export interface ChooseRequest {
  /** 1 to 250 characters; a whole number is taken as its text */
  unit: string;
}

/** The rankers to run for this user now, whose rankings the next request for a list needs. `epoch`: the number of the epoch, at whose end they may change; null if the experiment does not choose among many rankers, or if there is no plan: then only the control is run. */
export interface ChooseResponse {
  rankers: string[];
  arm: string;
  version: number;
  epoch: number | null;
}

/** The decision, as text. */
export interface DecisionRequest {
  decision: string;
}

/** How many impressions were deleted with an experiment. */
export interface DeleteResponse {
  impressions: number;
}

/** An error code, and a message that names the value and the remedy. */
export interface ErrorBody {
  code: string;
  message: string;
  field?: string;
}

/** The body of every error response. */
export interface ErrorResponse {
  error: ErrorBody;
}

/** An event on an impression; or of a unit, whose impression is found by attribution. */
export interface EventBody {
  event?: string | null;
  impression?: string | null;
  unit?: string | null;
  rank?: number | null;
  document?: string | null;
  kind?: string;
  time?: string | null;
  dwell?: number | null;
  value?: number | null;
}

/** A batch of events. With an impression's token no key is needed, but all events must belong to that impression. */
export interface EventsRequest {
  events: EventBody[];
  token?: string | null;
}

/** How many events of a batch were accepted, repeated or unmatched; `apart` counts the unmatched by reason. */
export interface EventsResponse {
  accepted: number;
  repeated: number;
  unmatched: number;
  apart: Record<string, number>;
}

export interface Experiment {
  /** name of the experiment, in addresses and logs */
  name: string;
  /** names of the rankers that are compared */
  rankers: string[];
  /** the ranker that users see without the experiment */
  control?: string;
  /** how rankings are mixed: a method with its parameters */
  method?: string;
  /** how clicks become a score; null: the method's own */
  scheme?: string | null;
  /** how many results a page shows */
  k?: number;
  /** share of units that take part */
  share?: number;
  /** experiments in the same lane never share a user */
  lane?: string | null;
  /** start of this experiment's share within the lane (0 to 1); null: the first free place when it is started */
  offset?: number | null;
  /** share of these units that see the control unchanged */
  holdout?: number;
  /** kinds of events that count, with weights */
  events?: Record<string, number>;
  /** kinds of events that browsers may send with the token of an impression */
  browser_events?: string[];
  /** kinds of events whose value, such as revenue, is a metric of its own */
  values?: string[];
  /** the total value of a unit counts up to this; give the cap that interleaf plan --values proposes; null: the 99th percentile so far, but it moves, and how often a verdict that people watch is then wrong is not measured */
  value_cap?: number | null;
  /** what the verdict is based on: a kind of event, or 'value of' a kind */
  primary?: string;
  /** which impression gets an event that names only its unit and document */
  attribution?: "same_impression" | "last_impression" | "every_impression" | "most_shown";
  /** how long after an impression its events count */
  window_minutes?: number;
  /** planned number of units; null: no plan */
  planned_units?: number | null;
  /** confidence level of intervals */
  confidence?: number;
  /** smallest preference that matters; rankers are alike if the interval of their difference lies within it */
  margin?: number;
  /** rules that stop it: the verdict is a preference (decided), or that the rankers are alike (alike), a health check failed (broken), a guardrail is broken (guardrail), or the maximum number of units took part (budget) */
  stop_when?: ("decided" | "alike" | "broken" | "guardrail" | "budget")[];
  /** number of units after which the rule 'budget' stops it; null: no budget */
  max_units?: number | null;
  /** smallest value difference that matters, per person with an event; null: rankers are never alike by values */
  value_margin?: number | null;
  /** metrics of interleaved lists against the holdout, or of the arms of an A/B test, each with the largest harm that is acceptable, in its own unit */
  guardrails?: Record<string, number>;
  /** a comparison in mixed lists or with one ranker's list per unit, the choice of the best of many rankers, or a check that the set-up can be trusted */
  mode?: "compare" | "choose" | "one_list" | "aa" | "aa_relabelled" | "known_loser";
  /** to choose the best of many: how long the rankers and their shares stay the same, such as 60 or 1440 */
  epoch_minutes?: number;
  /** to choose the best of many: how the rankers of an epoch are chosen from the results so far */
  algorithm?: "double_thompson" | "self_sparring" | "uniform_pairs";
  /** to choose the best of many: how many rankers are mixed into one list at most */
  max_mixed?: number;
  /** to choose the best of many: how long it should run; null: no plan */
  planned_days?: number | null;
  /** attributes that the report is split by */
  by?: string[];
  /** impressions do not count if the user agent contains one of these; case is ignored */
  bot_agents?: string[];
  /** units whose impressions do not count */
  bot_units?: string[];
  /** further impressions of a unit within an hour do not count */
  bot_rate?: number | null;
  /** an impression with at least this many results does not count if all of them are clicked */
  bot_clicks?: number | null;
  /** person or team responsible for it */
  owner?: string;
  /** what you expect to see, and why */
  hypothesis?: string;
  /** what others should know about it */
  description?: string;
  /** words to find it by */
  tags?: string[];
}

/** An experiment with its settings and its history. */
export interface ExperimentResponse {
  name: string;
  version: number;
  state: string;
  settings: Record<string, unknown>;
  created: string;
  started: string | null;
  stopped: string | null;
  archived: string | null;
  history: HistoryEntry[];
}

/** A page of experiments, the total on all pages, and the number of the next page, if there is one. At most a thousand are counted. If there are more, `total` is not exact. */
export interface ExperimentsResponse {
  experiments: ExperimentResponse[];
  total: number;
  is_total_exact: boolean;
  next: number | null;
}

/** How many impressions of a unit were deleted. */
export interface ForgetResponse {
  impressions: number;
}

/** The service is healthy. */
export interface HealthResponse {
  status: string;
}

/** A part of a caption's text that was shown in bold. */
export interface Highlight {
  field: string;
  start: number;
  end: number;
}

/** A line of an experiment's history. */
export interface HistoryEntry {
  time: string;
  version: number;
  what: string;
  who: string;
  note: string;
}

/** Rankings for one query of one unit; null stands for a ranking that failed or came too late. An empty ranking is an answer: the ranker found nothing. A list of which no ranker found a document is empty, and it is logged. A list shows one document of each group, such as variants of a product. A client that composed a list during an outage sends it later, with its `time` and the `version` at that time. */
export interface InterleaveRequest {
  rankings?: Record<string, string[] | null>;
  unit?: string | null;
  query?: string | null;
  session?: string | null;
  impression?: string | null;
  k?: number | null;
  page?: number;
  attributes?: Record<string, string> | null;
  captions?: Record<string, Caption> | null;
  characters?: Record<string, number> | null;
  fixed?: Record<string, string> | null;
  groups?: Record<string, string> | null;
  latency?: Record<string, number> | null;
  user_agent?: string | null;
  time?: string | null;
  version?: number | null;
}

/** The documents to show; `token` lets a browser report events of this impression, and no other. */
export interface InterleaveResponse {
  impression: string | null;
  documents: string[];
  arm: string;
  version: number;
  token: string | null;
}

/** The plans of all epochs of a version, if the experiment chooses the best of many rankers. */
export interface PlansResponse {
  version: number;
  plans: (Record<string, unknown>)[];
}

/** The report of each metric, the primary one first; or the reason why there is no report yet. */
export interface ReportResponse {
  version: number;
  reports: Record<string, unknown>;
  reason: string | null;
  open: number;
  folded: number;
  apart: Record<string, number>;
}

/** The calls of the API that answer with JSON. */
export interface Calls {
  /** mix rankings into a list */
  "POST /v1/experiments/{name}/interleave": { path: { name: string }; query: Record<string, never>; takes: InterleaveRequest; gives: InterleaveResponse };
  /** which rankers to run for a user */
  "POST /v1/experiments/{name}/choose": { path: { name: string }; query: Record<string, never>; takes: ChooseRequest; gives: ChooseResponse };
  /** report clicks and other events */
  "POST /v1/events": { path: Record<string, never>; query: Record<string, never>; takes: EventsRequest; gives: EventsResponse };
  /** experiments, page by page */
  "GET /v1/experiments": { path: Record<string, never>; query: { search?: string; state?: "draft" | "running" | "stopped" | "decided"; archived?: boolean; limit?: number; page?: number }; takes: undefined; gives: ExperimentsResponse };
  /** create an experiment, as a draft */
  "POST /v1/experiments": { path: Record<string, never>; query: Record<string, never>; takes: Experiment; gives: ExperimentResponse };
  /** one experiment */
  "GET /v1/experiments/{name}": { path: { name: string }; query: Record<string, never>; takes: undefined; gives: ExperimentResponse };
  /** change a draft, or make a new version of a running one */
  "PUT /v1/experiments/{name}": { path: { name: string }; query: Record<string, never>; takes: Experiment; gives: ExperimentResponse };
  /** delete it with all its rows; `confirm` repeats its name */
  "DELETE /v1/experiments/{name}": { path: { name: string }; query: { confirm: string }; takes: undefined; gives: DeleteResponse };
  /** start it */
  "POST /v1/experiments/{name}/start": { path: { name: string }; query: Record<string, never>; takes: undefined; gives: ExperimentResponse };
  /** end it */
  "POST /v1/experiments/{name}/stop": { path: { name: string }; query: Record<string, never>; takes: undefined; gives: ExperimentResponse };
  /** record the decision */
  "POST /v1/experiments/{name}/decide": { path: { name: string }; query: Record<string, never>; takes: DecisionRequest; gives: ExperimentResponse };
  /** stop it if it runs, and hide it from lists */
  "POST /v1/experiments/{name}/archive": { path: { name: string }; query: Record<string, never>; takes: undefined; gives: ExperimentResponse };
  /** show it in lists again */
  "POST /v1/experiments/{name}/unarchive": { path: { name: string }; query: Record<string, never>; takes: undefined; gives: ExperimentResponse };
  /** the report, as on the page */
  "GET /v1/experiments/{name}/report": { path: { name: string }; query: { version?: number }; takes: undefined; gives: ReportResponse };
  /** the plans of epochs */
  "GET /v1/experiments/{name}/plans": { path: { name: string }; query: { version?: number }; takes: undefined; gives: PlansResponse };
  /** delete all rows of a unit */
  "DELETE /v1/units/{unit}": { path: { unit: string }; query: Record<string, never>; takes: undefined; gives: ForgetResponse };
  /** whether the process answers (not the store) */
  "GET /livez": { path: Record<string, never>; query: Record<string, never>; takes: undefined; gives: HealthResponse };
  /** whether the store answers within a second */
  "GET /readyz": { path: Record<string, never>; query: Record<string, never>; takes: undefined; gives: HealthResponse };
  /** the same as /readyz */
  "GET /healthz": { path: Record<string, never>; query: Record<string, never>; takes: undefined; gives: HealthResponse };
}

export const LIMITS = {
  MAX_DOCUMENT: 512,
  MAX_NAME: 250,
  MAX_LABEL: 100,
  MAX_QUERY: 2_000,
  MAX_USER_AGENT: 1_000,
  MAX_ATTRIBUTES: 50,
  MAX_PAGE: 50,
  MAX_K: 200,
  MAX_RANK: 10_000,
  MAX_FIXED: 1_000,
  MAX_DWELL: 10_000_000.0,
  MAX_VALUE: 1_000_000_000_000.0,
  MAX_CAPTIONS: 2_000,
  MAX_CHARACTERS: 10_000_000,
  MAX_CAPTION: 20_000,
  MAX_HIGHLIGHTS: 1_000,
  MAX_HIGHLIGHT_END: 100_000,
  MAX_DEEP_LINKS: 1_000,
} as const;
