import {
  type Clock,
  type CodecFactory,
  type FramingFactory,
  monotonicClock,
  SeamError,
  type Transport,
} from '@seamline/core'
import { connectPipeline, type Pipeline, type PipelineOptions } from '@seamline/runtime'
import { withoutLayers } from './facts.ts'
import type { Plan, PlanRequest } from './plan.ts'
import { makePlan } from './planner.ts'
import { createRegistry, type Registry, type RegistryOptions } from './registry.ts'
import { parseRequest } from './request.ts'

export interface TrackerOptions extends RegistryOptions {
  /** By id. What of these is lossless may be used without being asked for. */
  readonly codecs: ReadonlyMap<string, CodecFactory>
  /** In order of preference. */
  readonly framings: readonly FramingFactory[]
  /** By id: what {@link Tracker.connect} dials with. */
  readonly transports: ReadonlyMap<string, Transport>
  /** Transports that pass through somebody else; their addresses come last. @default ['relay'] */
  readonly relayed?: readonly string[]
  readonly clock?: Clock
}

/** Of the coordinator that {@link Tracker.connect} makes. */
export type ConnectOptions = Pick<
  PipelineOptions,
  'name' | 'livenessMs' | 'progressMs' | 'rowsPerStep' | 'sink' | 'signal'
>

/** Knows workers by what they announce, and finds chains of them. */
export interface Tracker extends Registry {
  /** Synchronous, and dials nobody. For errors see {@link makePlan}; `PROTOCOL`, `LIMIT` or `USAGE` for a bad request. */
  plan(request?: PlanRequest): Plan
  /**
   * Dials the workers of a plan, each at its addresses in order until one answers, and has neighbours do the same. What came into
   * use is in `stages` and `links` of the pipeline. Rejects with what went wrong, naming the worker; `plan` with that one in
   * `without` then goes round it.
   */
  connect(plan: Plan, options?: ConnectOptions): Promise<Pipeline>
}

export function createTracker(options: TrackerOptions): Tracker {
  const { codecs, framings, transports, relayed = ['relay'], clock = monotonicClock } = options
  const registry = createRegistry(options, clock)
  const framingById = new Map(framings.map((make) => [make().id, make]))
  const lossless = [...codecs].filter(([, make]) => !make().lossy).map(([id]) => id)

  return {
    ...registry,
    plan(value = {}) {
      const request = parseRequest(value)
      const announcements = registry.workers().map(({ announcement }) => announcement)
      return makePlan(announcements, {
        facts: request.facts ?? {},
        without: request.without ?? [],
        allowed: {
          codecs: request.codecs ?? lossless,
          framings: request.framings ?? [...framingById.keys()],
          transports: request.transports ?? [...transports.keys()],
          relayed,
        },
      })
    },
    async connect(plan, connectOptions = {}) {
      const used = new Set([...plan.stages, ...plan.links].map(({ framing }) => framing))
      const unknown = [...used].find((id) => !framingById.has(id))
      if (unknown !== undefined) {
        const known = [...framingById.keys()].join(', ')
        throw new SeamError(
          'UNSUPPORTED',
          `the plan asks for framing ${unknown}, only ${known} is known here`,
        )
      }
      // What the plan names and nothing else: workers that follow the same rule then arrive at the same choice.
      const chosen = new Set(plan.links.map(({ codec }) => codec).filter((codec) => codec !== ''))
      return connectPipeline({
        ...connectOptions,
        workers: plan.stages.map(({ name, addresses }) => ({ name, addresses })),
        transports,
        framings: [...framingById].filter(([id]) => used.has(id)).map(([, make]) => make),
        codecs: [...chosen],
        expected: withoutLayers(plan.facts),
        clock,
      })
    },
  }
}
