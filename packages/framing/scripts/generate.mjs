// Writes src/generated/seamline.ts, the frames of vectors/protobuf.json and src/generated/protocol-id.ts from
// proto/seamline.proto. With --check it writes nothing and fails when a file differs from what it would write.
// Frames are encoded by protobufjs reflection, not by this package.
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
  const vectors = parseVectors(readFileSync(vectorsPath, 'utf8')).map((vector) => ({
    ...vector,
    frame: referenceFrame(schema, vector.message, Buffer.from(vector.payload, 'hex')).toString('hex'),
  }))
  const id = protocolId(
    describeSchema(),
    vectors.map((vector) => vector.frame),
  )
  return new Map([
    [join(root, 'src/generated/seamline.ts'), await staticCode()],
    [vectorsPath, formatVectors(vectors)],
    [
      join(root, 'src/generated/protocol-id.ts'),
      `// Written by scripts/generate.mjs: SHA-256 over schema and golden vectors, see README.md.\nexport const protocolId = '${id}'\n`,
    ],
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
