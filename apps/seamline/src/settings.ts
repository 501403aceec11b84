import type { LinkShape } from './link.ts'

/** How every stage of a pipeline and its unsplit reference compute; equal on all of them, or the handshake refuses. */
export interface EngineSettings {
  /** Tokens in one prefill chunk. */
  readonly chunk: number
  /** Positions of one sequence. */
  readonly ctx: number
  readonly sequences: number
  /** Compute threads of each stage. */
  readonly threads: number
  readonly flashAttn: 'on' | 'off'
  readonly regime: Regime
}

/**
 * `per-row`: output is reproduced by steps of the same shape. `uniform`: output does not depend on how tokens were grouped into
 * steps, at a price in time.
 */
export type Regime = 'per-row' | 'uniform'

/** What carries messages between two processes; names as in `--help`. */
export interface LinkSettings {
  /** The only framing allowed. @default all */
  readonly framing?: string
  /** Of addresses that name none. */
  readonly transport: string
  /** TLS and a shared secret also where nothing demands it. */
  readonly secure?: boolean
  /** Folder of this machine's key, certificate and secret. @default {@link identityDir} */
  readonly identity?: string
  /** Milliseconds of silence after which a process is dead. */
  readonly liveness: number
  /** Emulated around the transport, by both ends. */
  readonly link?: LinkShape
}

/** What a coordinator adds to that. */
export interface SeamSettings extends LinkSettings {
  /** The only codec allowed. @default any lossless one that both ends of a link have */
  readonly codec?: string
  /** Milliseconds that a compute step, or a wait without any finished step, may take. */
  readonly progressDeadline: number
}
