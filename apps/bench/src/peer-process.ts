import { benchPeer } from '@seamline/conformance'
import { createRelay } from '@seamline/transports/relay-server'
import { controls } from './controls/index.ts'
import { neighbour, type Traffic } from './neighbour.ts'
import type { PeerJob } from './peers.ts'
import { createTransport } from './transports.ts'

// The far end of the exchanges, in a process of its own: listens, says where, and ends with the process that forked it.
process.once('disconnect', () => process.exit())
// An interrupt from the terminal goes to every process on it; the one that forked this one tidies up.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

process.once('message', async (job: PeerJob) => {
  try {
    process.send?.({ address: await start(job) })
  } catch (error) {
    process.send?.({ failure: error instanceof Error ? error.message : String(error) })
  }
})

async function start(job: PeerJob): Promise<string> {
  switch (job.kind) {
    case 'control':
      return controls.get(job.name)!.control.listen()
    case 'relay':
      return (await createRelay({ address: '127.0.0.1:0' })).address
    case 'transport':
      return (await createTransport(job.settings).listen(job.settings.listenAt, benchPeer)).address
    case 'neighbour': {
      const { set } = await neighbour(job.settings, job.address)
      process.on('message', (traffic: Traffic) => set(traffic, () => process.send?.('done')))
      return ''
    }
  }
}
