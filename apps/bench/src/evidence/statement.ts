import { SeamError } from '@seamline/core'
import { asObject, knownFields, oneOf, text } from '../session/cell.ts'
import type { Bundle } from './bundle.ts'

export const statementType = 'https://in-toto.io/Statement/v1'
export const predicateType = 'seamline/bench-evidence/v1'

/** `bundle.json`: an in-toto statement about every other file of the bundle. */
export interface Statement {
  readonly _type: typeof statementType
  /** In the order of names. */
  readonly subject: readonly { readonly name: string; readonly digest: { readonly sha256: string } }[]
  readonly predicateType: typeof predicateType
  readonly predicate: Predicate
}

export interface Predicate {
  readonly title: string
  readonly evidenceClass: string
  readonly lockId: string | null
  readonly base: string | null
  readonly head: string | null
  readonly sessions: readonly { readonly name: string; readonly runs: number; readonly isEvidence: boolean }[]
  /** Which analyser derived: see `analyserSha256`. */
  readonly analyserSha256: string
}

export function predicateOf({ spec, lock, sessions }: Bundle, analyserSha256: string): Predicate {
  const { title, evidenceClass, base, head } = spec
  return {
    ...{ title, evidenceClass, base, head, analyserSha256, lockId: lock?.lockId ?? null },
    sessions: sessions.map(({ name, lost, stored }) => ({
      name,
      runs: stored.records.size,
      isEvidence: lost === null,
    })),
  }
}

/** Throws `USAGE` naming what is wrong. */
export function parseStatement(value: unknown): Statement {
  const statement = asObject(value, 'bundle')
  knownFields(statement, ['_type', 'subject', 'predicateType', 'predicate'], 'bundle')
  oneOf(statement._type, [statementType], 'bundle._type')
  oneOf(statement.predicateType, [predicateType], 'bundle.predicateType')
  if (!Array.isArray(statement.subject)) throw new SeamError('USAGE', 'bundle.subject: a list is needed')
  for (const [i, each] of statement.subject.entries()) {
    const subject = asObject(each, `bundle.subject[${i}]`)
    knownFields(subject, ['name', 'digest'], `bundle.subject[${i}]`)
    text(subject.name, `bundle.subject[${i}].name`)
    const digest = asObject(subject.digest, `bundle.subject[${i}].digest`)
    knownFields(digest, ['sha256'], `bundle.subject[${i}].digest`)
    text(digest.sha256, `bundle.subject[${i}].digest.sha256`)
  }
  text(asObject(statement.predicate, 'bundle.predicate').analyserSha256, 'bundle.predicate.analyserSha256')
  return statement as unknown as Statement
}
