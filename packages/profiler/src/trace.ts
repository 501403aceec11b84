/** Everything that was recorded of one run: what all analyses start from, and what is written to disk. */
export interface RunTrace {
  readonly format: 'seamline-trace/1'
  /** False when the run was cut: what follows from it is marked. */
  readonly complete: boolean
  /** 0: stamps of emitted tokens, byte counters and memory only; 1: spans of every process; 2: also CPU waits of event loops. */
  readonly level: 0 | 1 | 2 | 3
  readonly settings: RunSettings
  /** The coordinator first, then the stages in order, then relays. */
  readonly processes: readonly ProcessTrace[]
  readonly sequences: readonly SequenceTrace[]
  /**
   * What each link for hidden rows put on the wire while the sequences ran, with all headers from IP on, by the kernel's own counters; in
   * the order of the stages, null where it was not to be had.
   */
  readonly wireBytes?: readonly (number | null)[]
}

export interface RunSettings {
  /** When the run began, ISO 8601. */
  readonly startedAt: string
  /** The command that made it. */
  readonly command: readonly string[]
  readonly model: string
  readonly modelSha256: string
  readonly manifestSha256: string
  readonly engine: string
  readonly backend: string
  readonly stages: number
  readonly threads: number
  /** Sequences in flight: K. */
  readonly sequences: number
  readonly rowsPerStep: number
  readonly chunkTokens: number
  readonly embedding: number
  readonly transport: string
  readonly framing: string
  readonly codec: string
  /** Emulated, one way; absent for the bare transport. */
  readonly link?: { readonly delayMs: number; readonly bitsPerSecond?: number }
  /** True for an executor that waits instead of computing: such a run is labelled. */
  readonly paced: boolean
  /** A delay that was put in on purpose: such a run is never evidence of speed. */
  readonly injected?: { readonly place: string; readonly delayNs: number }
  /** The processes are not all on one host: their clocks are aligned rather than taken for one. */
  readonly severalHosts?: true
  /** Threads that are busy at the same time, and the cores of the host: more threads than cores disqualify a run. */
  readonly busyThreads: number
  readonly cores: number
}

export interface ProcessTrace {
  readonly name: string
  readonly role: 'coordinator' | 'stage' | 'relay'
  /** Place in the chain from 0; -1 for other roles. */
  readonly stage: number
  readonly layerFirst: number
  readonly layerEnd: number
  /** Records of `SPAN_RECORD_LENGTH` numbers on this process's own clock, in the order in which they were made. */
  readonly spans: Float64Array
  /** Spans lost. Any loss refuses an attribution. */
  readonly dropped: number
  readonly peakRssBytes: number
  /** Measured cost of one span at the start of the process, in ns. */
  readonly spanCostNs: number
}

/** One generation as the coordinator saw it, in ns on its clock. */
export interface SequenceTrace {
  readonly sequence: number
  readonly promptTokens: number
  readonly acceptedNs: number
  /** When each token was handed to the caller. */
  readonly emittedNs: readonly number[]
  /** Token ids, so that a run can be compared with others. */
  readonly tokens: readonly number[]
}

/**
 * What a segment of time is charged to. Every instant of a token has exactly one.
 * `compute.sync` is the engine's end until the event loop has the result, `wire.first` the time to the first byte of a message and
 * `wire.rest` that to its last. `wait.loop` is the part of a wire during which the receiving event loop was busy with recorded work of
 * something else.
 */
export const categories = [
  'compute.submit',
  'compute.device',
  'compute.sync',
  'cpu.wait',
  'sample',
  'convert.encode',
  'convert.decode',
  'copy',
  'compress',
  'decompress',
  'frame.encode',
  'frame.decode',
  'checksum',
  'send.call',
  'send.queue',
  'wire.first',
  'wire.rest',
  'relay.in',
  'relay.queue',
  'relay.out',
  'stage.queue',
  'wait.credit',
  'wait.sequence',
  'wait.loop',
  'gc',
  'dispatch',
  'open',
  'tokenize',
  'detokenize',
  'emit',
  'UNATTRIBUTED',
] as const

export type Category = (typeof categories)[number]

/** Why something waited. */
export type WaitReason =
  | 'own.compute'
  | 'other.sequence'
  | 'peer.slow'
  | 'credit'
  | 'socket'
  | 'gc'
  | 'loop'
  | 'unknown'

/** An interval of one process charged to one category. */
export interface Segment {
  readonly category: Category
  /** Index in {@link RunTrace.processes}; for a wire the receiving one. */
  readonly process: number
  /** A `SpanPort` for what belongs to a link. */
  readonly port: number
  /** On the clock of the last stage, integer ns. */
  readonly startNs: number
  readonly endNs: number
  readonly bytes: number
  readonly reason?: WaitReason
  /** Half of the width of what the clocks allow for this length; 0 within one process. */
  readonly uncertainNs: number
}

/** One token of one sequence. */
export interface TokenAttribution {
  readonly sequence: number
  /** From 0; the first token's interval begins when its request was accepted. */
  readonly index: number
  readonly position: number
  readonly startNs: number
  readonly endNs: number
  /** Without gap or overlap from start to end: their lengths add up to the wall time exactly. */
  readonly segments: readonly Segment[]
  /** From the end of sampling to the caller; not part of the interval. */
  readonly deliveryNs: number
  /** Work of this token in parallel with what its segments are charged to, so not part of the interval. */
  readonly hiddenNs: Readonly<Partial<Record<Category, number>>>
}

/** One serial lane over the whole window: its lengths add up to the window exactly. */
export interface LaneAttribution {
  readonly process: number
  readonly lane: 'engine' | 'loop' | 'link'
  readonly port: number
  readonly startNs: number
  readonly endNs: number
  readonly busyNs: Readonly<Partial<Record<Category, number>>>
  readonly waitNs: Readonly<Partial<Record<WaitReason, number>>>
  /** Idle with nothing to wait for. */
  readonly bubbleNs: number
}

export interface Attribution {
  readonly tokens: readonly TokenAttribution[]
  readonly lanes: readonly LaneAttribution[]
  /** Messages that arrived before they were sent by every clock that the probes allow. Must be 0. */
  readonly causalityViolations: number
  /** Tokens of which the trace lacks the beginning or the end. */
  readonly omitted: readonly { readonly sequence: number; readonly index: number }[]
  /** Serial lanes on which two spans overlap: errors of the recording, by name. */
  readonly recordingErrors: readonly string[]
}

/** An affine map from a process's clock to that of the last stage, and how far it can be off. */
export interface ClockMap {
  readonly process: number
  /** `other = own + offsetNs + drift * (own - epochNs)`. */
  readonly epochNs: number
  readonly offsetNs: number
  readonly drift: number
  /** What one-way inequalities allow for the offset at the start, the middle and the end of the run. */
  readonly band: readonly { readonly atNs: number; readonly lowNs: number; readonly highNs: number }[]
  readonly minRttNs: number
  readonly probes: number
  readonly residualP50Ns: number
  readonly residualP95Ns: number
}

export interface ClockAlignment {
  /** One for each process, in the order of the trace; the last stage's is the identity. */
  readonly maps: readonly ClockMap[]
  /** Sum of offsets around a ring of three processes that probed each other, and the width that its bands allow. */
  readonly closures: readonly {
    readonly processes: readonly number[]
    readonly residualNs: number
    readonly allowedNs: number
  }[]
}
