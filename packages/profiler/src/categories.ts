import { type Category, categories } from './trace.ts'

/** Groups of categories that a reader tells apart at a glance, each with one colour everywhere. */
export const categoryGroups = [
  'compute',
  'convert',
  'frame',
  'send',
  'wire',
  'relay',
  'wait',
  'runtime',
  'unattributed',
] as const

export type CategoryGroup = (typeof categoryGroups)[number]

export const groupLabels: Readonly<Record<CategoryGroup, string>> = {
  compute: 'Compute and sample',
  convert: 'Convert, copy, compress',
  frame: 'Frame and checksum',
  send: 'Send',
  wire: 'Wire',
  relay: 'Relay',
  wait: 'Wait for a turn or a CPU',
  runtime: 'Runtime',
  unattributed: 'Unattributed',
}

const members: Readonly<Record<CategoryGroup, readonly Category[]>> = {
  compute: ['compute.submit', 'compute.device', 'compute.sync', 'sample'],
  convert: ['convert.encode', 'convert.decode', 'copy', 'compress', 'decompress'],
  frame: ['frame.encode', 'frame.decode', 'checksum'],
  send: ['send.call', 'send.queue'],
  wire: ['wire.first', 'wire.rest'],
  relay: ['relay.in', 'relay.queue', 'relay.out'],
  wait: ['stage.queue', 'wait.credit', 'wait.sequence', 'wait.loop', 'cpu.wait'],
  runtime: ['gc', 'dispatch', 'open', 'tokenize', 'detokenize', 'emit'],
  unattributed: ['UNATTRIBUTED'],
}

const byCategory = new Map<string, CategoryGroup>(
  categoryGroups.flatMap((group) => members[group].map((category) => [category, group] as const)),
)

/** The group of a category; one that is not known counts as unattributed. */
export function groupOf(category: string): CategoryGroup {
  return byCategory.get(category) ?? 'unattributed'
}

/** Plain words for each category. */
export const categoryLabels: Readonly<Record<Category, string>> = {
  'compute.submit': 'handed to the engine, not begun',
  'compute.device': 'compute',
  'compute.sync': 'result back to the event loop',
  'cpu.wait': 'engine without a CPU',
  sample: 'sample',
  'convert.encode': 'codec encode',
  'convert.decode': 'codec decode',
  copy: 'copy',
  compress: 'compress',
  decompress: 'decompress',
  'frame.encode': 'frame encode',
  'frame.decode': 'frame decode',
  checksum: 'checksum',
  'send.call': 'send call',
  'send.queue': 'send queue',
  'wire.first': 'wire, to the first byte',
  'wire.rest': 'wire, first to last byte',
  'relay.in': 'relay, read',
  'relay.queue': 'relay, held back',
  'relay.out': 'relay, write',
  'stage.queue': 'queue of the stage',
  'wait.credit': 'wait for credit',
  'wait.sequence': 'wait for another sequence',
  'wait.loop': 'wait for the event loop',
  gc: 'garbage collection',
  dispatch: 'event loop',
  open: 'opening a sequence on every stage',
  tokenize: 'tokenize',
  detokenize: 'detokenize',
  emit: 'hand over to the caller',
  UNATTRIBUTED: 'unattributed',
}

/** Plain words for a category, or its own name where it is not one of {@link categories}. */
export function categoryLabel(category: string): string {
  return (categories as readonly string[]).includes(category)
    ? categoryLabels[category as Category]
    : category
}
