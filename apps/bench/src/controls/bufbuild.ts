import { fileURLToPath } from 'node:url'
import type { DescMessage } from '@bufbuild/protobuf'
import type { WholeMessage } from './whole-message.ts'

/** @bufbuild/protobuf on whole messages, with types from a descriptor set that is made here: no generated code. */
export async function bufbuild(): Promise<WholeMessage> {
  const { create, createFileRegistry, fromBinary, toBinary } = await import('@bufbuild/protobuf')
  const { FileDescriptorSetSchema } = await import('@bufbuild/protobuf/wkt')
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, await descriptorSet()))
  const type = (name: string): DescMessage => registry.getMessage(`seamline.v1.${name}`)!
  const [Frame, Tensor, Row] = [type('Frame'), type('Tensor'), type('Row')]
  const dtype = registry.getEnum('seamline.v1.DType')!.values.find(({ name }) => name === 'DTYPE_F32')!.number

  return {
    encode({ kind: _, checksum, rows, shape, step, sentNs, ...rest }, payload) {
      const tensor = create(Tensor, {
        ...rest,
        ...(checksum === -1 ? {} : { checksum }),
        dtype,
        shape: [...shape],
        step: BigInt(step),
        sentNs: BigInt(sentNs),
        rows: rows.map((row) => create(Row, { ...row })),
      })
      return toBinary(Frame, create(Frame, { kind: { case: 'tensor', value: tensor }, payload }))
    },
    decode(bytes) {
      const frame = fromBinary(Frame, bytes) as unknown as {
        readonly payload: Uint8Array
        readonly kind: { readonly value: { readonly step: bigint } }
      }
      return { payload: frame.payload, step: Number(frame.kind.value.step) }
    },
  }
}

interface Field {
  typeName?: string | null
}

/** The schema of the framing as a FileDescriptorSet, parsed and encoded by protobufjs. */
async function descriptorSet(): Promise<Uint8Array> {
  const { default: protobufjs } = await import('protobufjs')
  const { default: descriptor } = await import('protobufjs/ext/descriptor.js')
  const schema = new URL('../proto/seamline.proto', import.meta.resolve('@seamline/framing'))
  const root = await new protobufjs.Root().load(fileURLToPath(schema))
  root.resolveAll()
  const set = root.toDescriptor('proto3')
  // protobufjs leaves names as they stand in the schema, where a descriptor wants them in full.
  for (const file of set.file ?? [])
    for (const message of file.messageType ?? [])
      for (const field of (message.field ?? []) as Field[])
        if (field.typeName && !field.typeName.startsWith('.'))
          field.typeName = `.${file.package}.${field.typeName}`
  return descriptor.FileDescriptorSet.encode(set).finish()
}
