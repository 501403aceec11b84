import type { Message } from '@seamline/core'
import type { Root } from 'protobufjs'

export function loadSchema(keepCase?: boolean): Root
export function describeSchema(): string[]
export function referenceFrame(
  schema: Root,
  message: Message,
  payload: Uint8Array,
  checksum?: boolean,
): Buffer
export function referenceMsgpackFrame(
  schema: Root,
  message: Message,
  payload: Uint8Array,
  checksum?: boolean,
): Buffer
export function describeMsgpack(): string[]
export function parseVectors(text: string): unknown
export function formatVectors(vectors: unknown): string
export function protocolId(lines: readonly string[], frames: readonly string[]): string
export function generate(): Promise<Map<string, string>>
