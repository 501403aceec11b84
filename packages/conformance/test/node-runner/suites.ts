// Runs under `node --test`: the suites as they are published, on the small implementations.
import { describe, it } from 'node:test'
import { codecSuite, executorSuite, framingSuite, transportSuite } from '@seamline/conformance'
import { jsonFraming } from '../json-framing.ts'
import { plain } from '../plain-codecs.ts'
import { plainStage } from '../plain-executor.ts'
import { plainTransport } from '../plain-transport.ts'

if (process.env.SEAMLINE_TEST_BROKEN === '1') {
  codecSuite({ describe, it, codec: plain('one byte too many') })
} else {
  codecSuite({ describe, it, codec: plain() })
  framingSuite({ describe, it, framing: jsonFraming() })
  executorSuite({ describe, it, create: async () => [plainStage({ layerFirst: 0, layerEnd: 4 })] })
  transportSuite({ describe, it, create: () => ({ transport: plainTransport(), address: 'stage:0' }) })
}
