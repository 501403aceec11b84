/**
 * A tracker of one's own: workers announce themselves, it finds chains of them that agree on everything, and connects one.
 * Negotiation only: routing by cost, load balancing and billing do not exist.
 *
 * @example
 * ```ts
 * import { config, createTracker } from '@seamline/tracker'
 *
 * const tracker = createTracker(config)
 * for (const { announcement } of workers) tracker.announce(announcement)
 * const pipeline = await tracker.connect(tracker.plan())
 * ```
 *
 * @packageDocumentation
 */
export { type Announced, type AnnounceOptions, announceTo } from './announce.ts'
export { LIMITS, parseAnnouncement } from './announcement.ts'
export { type ClientOptions, type TrackerClient, trackerClient } from './client.ts'
export * as config from './config.ts'
export type { Candidate, Plan, PlannedLink, PlannedStage, PlanRequest } from './plan.ts'
export type { KnownWorker, Receipt, Registry, RegistryOptions } from './registry.ts'
export { type ErrorBody, type ServeOptions, serveTracker, type TrackerServer } from './server.ts'
export { type ConnectOptions, createTracker, type Tracker, type TrackerOptions } from './tracker.ts'
