import { grpc } from './grpc.ts'
import type { Control } from './messages.ts'
import { netConcat } from './net-concat.ts'
import { netPooled, netPublic } from './net-pooled.ts'
import { plainWs } from './ws.ts'
import { zeromq } from './zeromq.ts'

export interface NamedControl {
  readonly control: Control
  /** What has to be installed for it. */
  readonly needs?: string
  /** Each exchange gets a process of its own. */
  readonly single?: boolean
}

/** By their name in ids. */
export const controls: ReadonlyMap<string, NamedControl> = new Map<string, NamedControl>([
  ['net-pooled', { control: netPooled }],
  ['net-public', { control: netPublic }],
  ['net-concat', { control: netConcat }],
  ['grpc-js', { control: grpc, needs: '@grpc/grpc-js' }],
  ['zeromq', { control: zeromq, needs: 'zeromq', single: true }],
  ['ws-messages', { control: plainWs, needs: 'ws' }],
])
