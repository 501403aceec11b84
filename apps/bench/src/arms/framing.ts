import { framingCases } from '@seamline/conformance'
import { protobuf } from '@seamline/framing/protobuf'
import { framings } from 'seamline/cluster'
import { bufbuild } from '../controls/bufbuild.ts'
import { protobufjsStatic } from '../controls/protobufjs.ts'
import { type WholeMessage, wholeMessageCases } from '../controls/whole-message.ts'
import { type Dropped, type Entry, entriesOf } from '../selection.ts'

const prefixBytes = 8

/** Every framing that a worker has, and protobuf libraries that carry the payload inside the message. */
export async function framingEntries(): Promise<{
  readonly entries: readonly Entry[]
  readonly dropped: readonly Dropped[]
}> {
  const cases = [...framings.values()].flatMap((framing) => framingCases(framing))
  const dropped: Dropped[] = []
  const reference = protobuf({ checksum: false })
  const libraries: [string, () => Promise<WholeMessage>][] = [
    ['protobufjs', protobufjsStatic],
    ['bufbuild', bufbuild],
  ]
  for (const [name, make] of libraries) {
    try {
      const whole = await make()
      // The framing puts a prefix in front of the very bytes of a protobuf message.
      cases.push(
        ...wholeMessageCases(name, whole, (message, payload) =>
          reference.encode(message, payload).subarray(prefixBytes),
        ),
      )
    } catch (error) {
      dropped.push({ arm: `control/${name}`, reason: (error as Error).message.split('\n', 1)[0]! })
    }
  }
  return { entries: entriesOf('framing', cases, (path) => path.at(-1)!), dropped }
}
