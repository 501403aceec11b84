import type { LinkFacts, TransportAddress } from '@seamline/core'

/** What a chain is wanted for. Everything may be left out. */
export interface PlanRequest {
  /** What every stage must state. The model's SHA-256 is needed once workers of several models are known. */
  readonly facts?: Partial<LinkFacts>
  /** Codecs that hidden rows may travel in, lossy ones among them. @default every lossless one of the tracker's own */
  readonly codecs?: readonly string[]
  /** What the coordinator speaks, best first. @default the tracker's own */
  readonly framings?: readonly string[]
  /** What the coordinator dials with. @default the tracker's own */
  readonly transports?: readonly string[]
  /** Names of workers to do without, such as one that has just failed. */
  readonly without?: readonly string[]
}

export interface PlannedStage {
  readonly name: string
  readonly layerFirst: number
  readonly layerEnd: number
  /** All of them, direct ones before those through a relay: to be tried in this order. */
  readonly addresses: readonly TransportAddress[]
  /** Of the link with the coordinator. */
  readonly framing: string
}

/** What two neighbours will use. The receiver dials, and its order of preference decides. */
export interface PlannedLink {
  /** Names of the sending and the receiving stage. */
  readonly from: string
  readonly to: string
  readonly carries: 'hidden rows' | 'tokens'
  /** Those of `from` that `to` can dial, in the order in which they are tried. */
  readonly addresses: readonly TransportAddress[]
  readonly framing: string
  /** Empty for tokens. */
  readonly codec: string
}

/** A worker that was looked at, and what became of it. */
export interface Candidate {
  readonly name: string
  readonly layerFirst: number
  readonly layerEnd: number
  readonly use: 'chosen' | 'spare' | 'unfit'
  /** Why it is no part of the chain; empty for one that is. */
  readonly reason: string
}

/** A chain that covers all layers of one model. Plain data: it may travel as JSON. */
export interface Plan {
  /** What all stages share; the layer range is the whole model. */
  readonly facts: LinkFacts
  /** In the order of their layers. */
  readonly stages: readonly PlannedStage[]
  /** In the order of the stages that send. Without the token return where stage 0 cannot dial the last stage. */
  readonly links: readonly PlannedLink[]
  /** Every worker known when the plan was made, each once. */
  readonly candidates: readonly Candidate[]
}
