import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { SeamError } from '@seamline/core'
import type { Traffic } from './neighbour.ts'
import type { TransportSettings } from './transports.ts'

/** What a process of its own is to do. Travels as JSON. */
export type PeerJob =
  /** Listens and answers exchanges. */
  | { readonly kind: 'transport'; readonly settings: TransportSettings }
  | { readonly kind: 'control'; readonly name: string }
  /** Is a relay. */
  | { readonly kind: 'relay' }
  /** Dials, then makes the traffic that {@link Peer.tell} names. */
  | { readonly kind: 'neighbour'; readonly settings: TransportSettings; readonly address: string }

/** Processes that this one started. */
export interface Peers {
  /** Starts a process and resolves with the address that it listens at. Throws `WORKER` with what it said when it ends before. */
  start(job: PeerJob): Promise<Peer>
  /** Ends all of them and waits for it. */
  dispose(): Promise<void>
}

export interface Peer {
  /** Where it listens; empty for one that dials. */
  readonly address: string
  /** Resolves once a neighbour makes that traffic, and no other any more. */
  tell(traffic: Traffic): Promise<void>
  stop(): Promise<void>
}

const startMs = 20_000
const saidChars = 2_000

export function createPeers(): Peers {
  const children = new Set<ChildProcess>()
  const program = fileURLToPath(new URL('./peer-process.js', import.meta.url))

  async function stop(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL') // a peer keeps nothing that would need tidying
    await gone
  }

  function told(child: ChildProcess, traffic: Traffic): Promise<void> {
    return new Promise((resolve, reject) => {
      const onMessage = () => {
        child.off('exit', onExit)
        resolve()
      }
      const onExit = () => {
        child.off('message', onMessage)
        reject(new SeamError('WORKER', 'the neighbour process ended', { worker: 'neighbour' }))
      }
      child.once('message', onMessage)
      child.once('exit', onExit)
      child.send(traffic)
    })
  }

  return {
    start(job) {
      const what = job.kind === 'control' ? job.name : job.kind === 'transport' ? job.settings.name : job.kind
      return new Promise((resolve, reject) => {
        // A peer outlives neither this process (it ends with the channel) nor the terminal's interrupt.
        const child = fork(program, [], { execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
        children.add(child)
        let said = ''
        const fail = (how: string) => {
          clearTimeout(timer)
          void stop(child)
          const words = said.trim() === '' ? '' : `; it said: ${said.trim()}`
          reject(new SeamError('WORKER', `the ${what} process ${how}${words}`, { worker: what }))
        }
        const timer = setTimeout(() => fail(`did not listen within ${startMs} ms`), startMs)
        child.stderr?.on('data', (chunk) => {
          said = (said + chunk).slice(-saidChars)
        })
        child.once('error', (error) => fail(`does not start: ${error.message}`))
        child.once('exit', (code, signal) => {
          children.delete(child)
          fail(`ended with ${code ?? signal}`)
        })
        child.once('message', ({ address, failure }: { address?: string; failure?: string }) => {
          if (address === undefined) return fail(`failed: ${failure}`)
          clearTimeout(timer)
          resolve({
            address,
            stop: () => stop(child),
            tell: (traffic) => told(child, traffic),
          })
        })
        child.send(job)
      })
    },
    async dispose() {
      await Promise.all([...children].map(stop))
    },
  }
}
