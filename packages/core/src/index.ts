/**
 * The contracts of every seam between two workers: codec, framing, transport, stage executor, clock and spans,
 * with the messages that travel and the one error type. No dependencies and no implementations beyond
 * helpers that every side needs.
 *
 * @packageDocumentation
 */
export * from './clock.ts'
export * from './codec.ts'
export * from './errors.ts'
export * from './executor.ts'
export * from './framing.ts'
export * from './messages.ts'
export * from './sampler.ts'
export * from './span.ts'
export * from './tensor.ts'
export * from './transport.ts'
