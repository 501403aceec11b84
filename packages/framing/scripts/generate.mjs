// Writes src/generated/seamline.ts, the frames of vectors/protobuf.json, all of vectors/msgpack.json and
// src/generated/protocol-ids.ts from proto/seamline.proto and the messages of vectors/protobuf.json. With --check it
// writes nothing and fails when a file differs from what it would write.
// Frames are encoded by protobufjs reflection and by the lines below, not by this package.
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { crc32 } from 'node:zlib'
import protobuf from 'protobufjs'
import pbjs from 'protobufjs-cli/pbjs.js'

const { Long } = protobuf.util
const root = fileURLToPath(new URL('..', import.meta.url))
const schemaPath = join(root, 'proto/seamline.proto')
const vectorsPath = join(root, 'vectors/protobuf.json')

/** The enums and reflected types of the schema. Field names are camelCase unless `keepCase`. */
export function loadSchema(keepCase = false) {
  return new protobuf.Root().loadSync(schemaPath, { keepCase }).resolveAll()
}

/** One line for every field and enum value of the schema, sorted: what the wire depends on. */
export function describeSchema() {
  const lines = []
  const walk = (parent) => {
    for (const item of parent.nestedArray) {
      if (item instanceof protobuf.Type) {
        for (const field of item.fieldsArray) {
          const label = field.repeated ? 'repeated' : field.options?.proto3_optional ? 'optional' : 'singular'
          const group = label === 'singular' && field.partOf ? ` oneof ${field.partOf.name}` : ''
          const type = field.resolvedType ? field.resolvedType.fullName.slice(1) : field.type
          lines.push(`${item.fullName.slice(1)} ${field.id} ${label} ${type} ${field.name}${group}`)
        }
      } else if (item instanceof protobuf.Enum) {
        for (const [name, value] of Object.entries(item.values))
          lines.push(`${item.fullName.slice(1)} ${value} ${name}`)
      }
      if (item.nestedArray) walk(item)
    }
  }
  walk(loadSchema(true))
  return lines.sort()
}

const SERVICE = ['traceControl', 'traceFetch', 'stateGet', 'stateSet']
const ENUMS = { role: 'ROLE_', dtype: 'DTYPE_', finish: 'FINISH_', scope: 'SCOPE_', code: 'CODE_' }

/** Text form of messages in vectors: a bigint is its digits and an n. */
export const parseVectors = (text) =>
  JSON.parse(text, (name, value) =>
    name === 'run' && /^\d+n$/.test(value) ? BigInt(value.slice(0, -1)) : value,
  )
export const formatVectors = (vectors) =>
  `${JSON.stringify(vectors, (_, value) => (typeof value === 'bigint' ? `${value}n` : value), 1)}\n`

/** The message of the contract as the object that protobufjs takes: enum names in full, -1 left out. */
function toProto({ kind: _, ...message }) {
  const object = {}
  for (const [name, value] of Object.entries(message)) {
    if (value === -1) continue
    if (Array.isArray(value))
      object[name] = value.map((item) => (item instanceof Object ? toProto(item) : item))
    else if (value instanceof Object) object[name] = toProto(value)
    else if (typeof value === 'bigint') object[name] = Long.fromString(`${value}`, true)
    else object[name] = name in ENUMS ? ENUMS[name] + value.toUpperCase() : value
  }
  return object
}

/** Frame bytes of `message` by protobufjs reflection. */
export function referenceFrame(schema, message, payload, checksum = true) {
  const Frame = schema.lookupType('seamline.v1.Frame')
  const fields = { [message.kind]: toProto(message) }
  const object = { ...(SERVICE.includes(message.kind) ? { service: fields } : fields), payload }
  const body = Frame.encode(Frame.fromObject(object)).finish()
  const headerBytes = body.length - payload.length
  const prefix = Buffer.alloc(8)
  prefix.writeUInt32LE(headerBytes, 0)
  prefix.writeUInt32LE(checksum ? crc32(body.subarray(0, headerBytes)) : 0, 4)
  return Buffer.concat([prefix, body])
}

/** A number, text, boolean, null or array in the shortest form that this wire knows. */
function packed(value) {
  if (value === null) return Buffer.of(0xc0)
  if (typeof value === 'boolean') return Buffer.of(value ? 0xc3 : 0xc2)
  if (Array.isArray(value) || typeof value === 'string') {
    const bytes = typeof value === 'string' ? Buffer.from(value) : undefined
    const count = bytes?.length ?? value.length
    const [fix, limit, first] = bytes ? [0xa0, 32, 0xd9] : [0x90, 16, 0xdc]
    const head =
      count < limit
        ? [fix + count]
        : bytes && count < 256
          ? [first, count]
          : count < 65536
            ? [bytes ? 0xda : 0xdc, count >> 8, count & 255]
            : [bytes ? 0xdb : 0xdd, count >>> 24, (count >> 16) & 255, (count >> 8) & 255, count & 255]
    return Buffer.concat([Buffer.from(head), ...(bytes ? [bytes] : value.map((item) => packed(item)))])
  }
  const out = Buffer.alloc(9)
  if (typeof value === 'bigint') {
    out[0] = value < 2n ** 63n ? 0xd3 : 0xcf
    out.writeBigUInt64BE(value, 1)
    return out
  }
  if (Number.isInteger(value) && value >= 0 && value < 2 ** 32) {
    if (value < 128) return Buffer.of(value)
    if (value < 2 ** 8) return Buffer.of(0xcc, value)
    if (value < 2 ** 16) return Buffer.of(0xcd, value >> 8, value & 255)
    out[0] = 0xce
    out.writeUInt32BE(value, 1)
    return out.subarray(0, 5)
  }
  if (Number.isInteger(value) && value < 0 && value >= -(2 ** 31)) {
    if (value >= -32) return Buffer.of(256 + value)
    if (value >= -(2 ** 7)) return Buffer.of(0xd0, 256 + value)
    if (value >= -(2 ** 15)) return Buffer.of(0xd1, (value >> 8) & 255, value & 255)
    out[0] = 0xd2
    out.writeInt32BE(value, 1)
    return out.subarray(0, 5)
  }
  out[0] = 0xcb
  out.writeDoubleBE(value, 1)
  return out
}

const KINDS = (schema) =>
  ['Frame', 'Service']
    .flatMap((name) => schema.lookupType(`seamline.v1.${name}`).oneofsArray[0].fieldsArray)
    .filter((field) => field.name !== 'service')

/** The fields of a message of the contract as an array in the order of their numbers in the schema. */
function positional(type, message) {
  return type.fieldsArray
    .toSorted((a, b) => a.id - b.id)
    .map((field) => {
      const { resolvedType } = field.resolve()
      const one = (value) => {
        if (value === -1 && field.options?.proto3_optional) return null
        if (typeof value === 'bigint' && value < 2n ** 53n) return Number(value)
        if (resolvedType instanceof protobuf.Enum)
          return resolvedType.values[ENUMS[field.name] + value.toUpperCase()]
        return resolvedType ? positional(resolvedType, value) : value
      }
      return field.repeated ? message[field.name].map(one) : one(message[field.name])
    })
}

/** MessagePack frame bytes of `message` from the schema. */
export function referenceMsgpackFrame(schema, message, payload, checksum = true) {
  const kinds = KINDS(schema)
  const at = kinds.findIndex(({ name }) => name === message.kind)
  const header = packed([at + 1, payload.length, positional(kinds[at].resolve().resolvedType, message)])
  const prefix = Buffer.alloc(8)
  prefix.writeUInt32LE(header.length, 0)
  prefix.writeUInt32LE(checksum ? crc32(header) : 0, 4)
  return Buffer.concat([prefix, header, payload])
}

/** What the MessagePack wire depends on: its form, the numbers of the kinds, and the schema. */
export function describeMsgpack() {
  const kinds = KINDS(loadSchema()).map(({ name }, i) => `kind ${i + 1} ${name}`)
  return ['msgpack [kind, payload bytes, [fields by number]]', ...kinds, ...describeSchema()]
}

/** The SHA-256 that names the bytes on the wire. */
export function protocolId(lines, frames) {
  return createHash('sha256')
    .update([...lines, ...frames].map((line) => `${line}\n`).join(''))
    .digest('hex')
}

const FLAGS =
  '-t static-module -w esm --no-create --no-verify --no-convert --no-delimited --no-typeurl --no-comments --no-service'

async function staticCode() {
  const folder = mkdtempSync(join(tmpdir(), 'seamline-pbjs-'))
  try {
    const out = join(folder, 'seamline.js')
    await promisify(pbjs.main)([...FLAGS.split(' '), '-o', out, schemaPath])
    // pbjs keeps its types in a registry shared by the process; these stay in their module.
    const replaced = readFileSync(out, 'utf8')
      .replace(/^\/\*eslint.*\n/, '')
      .replace(/const \$root = .*;/, 'const $root: any = {};')
      .replace(
        'export const seamline = $root.seamline = (',
        'export const seamline: any = $root.seamline = (',
      )
      .replace(/\nexport \{[^}]*\};?\s*$/, '\n')
      // Defaults are the same whether or not the long package can be resolved.
      .replaceAll('$util.Long ? $util.Long.fromBits(0,0,true) : 0', '0')
    if (/roots\[|Long/.test(replaced) || !/export const seamline: any/.test(replaced))
      throw new Error('pbjs wrote its module in a form that scripts/generate.mjs does not know')
    return `// Written by scripts/generate.mjs from proto/seamline.proto with protobufjs-cli.\n// @ts-nocheck\n${replaced.trim()}\n`
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** What each file should hold, by path. */
export async function generate() {
  const schema = loadSchema()
  const messages = parseVectors(readFileSync(vectorsPath, 'utf8'))
  const framed = (encode) =>
    messages.map((vector) => ({
      ...vector,
      frame: encode(schema, vector.message, Buffer.from(vector.payload, 'hex')).toString('hex'),
    }))
  const protobufVectors = framed(referenceFrame)
  const msgpackVectors = framed(referenceMsgpackFrame)
  const id = (lines, vectors) =>
    protocolId(
      lines,
      vectors.map((vector) => vector.frame),
    )
  const ids = `// Written by scripts/generate.mjs: SHA-256 over schema and golden vectors, see README.md.
export const protobufId = '${id(describeSchema(), protobufVectors)}'
export const msgpackId = '${id(describeMsgpack(), msgpackVectors)}'
`
  return new Map([
    [join(root, 'src/generated/seamline.ts'), await staticCode()],
    [vectorsPath, formatVectors(protobufVectors)],
    [join(root, 'vectors/msgpack.json'), formatVectors(msgpackVectors)],
    [join(root, 'src/generated/protocol-ids.ts'), ids],
  ])
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [path, text] of await generate()) {
    if (!process.argv.includes('--check')) writeFileSync(path, text)
    else if (readFileSync(path, 'utf8') !== text) {
      console.error(`${path} differs from what scripts/generate.mjs writes: run it and commit the result`)
      process.exitCode = 1
    }
  }
}
