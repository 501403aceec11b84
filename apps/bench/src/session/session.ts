import type { Environment } from '../environment.ts'
import type { Cell } from './cell.ts'

/** Runs that belong together, in the order in which they are made; a folder with `session.json` and `runs/0001/…`. */
export interface SessionPlan {
  readonly format: 'seamline-session/1'
  readonly purpose: 'e2e' | 'survey' | 'select' | 'inject' | 'compare' | 'aa' | 'micro'
  /** Of the plan or lock that it serves: SHA-256 of its canonical JSON; null for a scenario run by hand. */
  readonly serves: string | null
  /** Of the order; a 32-bit number. */
  readonly seed: number
  readonly cells: Readonly<Record<string, Cell>>
  readonly runs: readonly PlannedRun[]
  /** Idle before each run. */
  readonly cooldownMs: number
}

export interface PlannedRun {
  /** From 1, without a gap: the name of the folder is this number with four digits. */
  readonly number: number
  readonly cell: string
  /** Which build runs it: a key of {@link Session.builds}. */
  readonly build: string
  /** What it counts as: `A`, `B`, and `A1`, `A2` for pairs of a build with itself; a cell's name elsewhere. */
  readonly arm: string
  /** Runs that are compared with each other share it; from 0, null without. */
  readonly pair: number | null
}

/** What a build was made from. */
export interface Build {
  readonly commit: string
  readonly dirty: boolean
  /** SHA-256 over the names and SHA-256 of all files of all `dist` folders. */
  readonly distSha256: string
}

/** `session.json`: the plan, and what became of it. */
export interface Session {
  readonly plan: SessionPlan
  readonly builds: Readonly<Record<string, Build>>
  readonly environment: Environment
  readonly startedAt: string
  /** Null while it runs or where the process was killed. */
  readonly endedAt: string | null
  /** `done`: every run has a record, also those that failed. `cut`: interrupted, with the reason. */
  readonly outcome: 'running' | 'done' | 'cut'
  readonly reason: string | null
}
