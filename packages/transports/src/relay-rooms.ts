import { randomBytes } from 'node:crypto'
import { SeamError } from '@seamline/core'
import { type Control, createControl } from './relay-control.ts'
import type { RelayLimits } from './relay-limits.ts'
import { countDrop, type DropReason, type Drops, type RelayMetrics } from './relay-metrics.ts'
import { type RelayRequest, sameKey } from './relay-protocol.ts'
import { type Pair, type RelayProbe, splice } from './relay-splice.ts'
import type { Visitor } from './relay-visitor.ts'

interface Dial {
  readonly visitor: Visitor
  readonly timer: NodeJS.Timeout
}

interface Joined {
  readonly pair: Pair
  activeMs: number
}

interface Room {
  readonly name: string
  readonly key: string
  readonly mode: RelayRequest['mode']
  readonly pairs: Set<Joined>
  /** Dials that wait for the data connection of the listener, by ticket. */
  readonly dials: Map<string, Dial>
  readonly drops: Drops
  listener: { readonly control: Control; readonly token: string } | undefined
  peers: number
  toListenerBytes: number
  toDiallerBytes: number
  stalls: number
}

/** Everything that a relay knows of its peers once their requests are read. */
export interface Rooms {
  /** Grants or refuses what `visitor` asks for. */
  admit(visitor: Visitor): void
  /** Counts a drop that belongs to no room. */
  drop(reason: DropReason): void
  metrics(): Omit<RelayMetrics, 'handshakes'>
  /** Refuses from now on, and tells the listeners. Resolves when no pair is left. */
  retire(): Promise<void>
  /** Cuts what is left. */
  destroy(): void
}

export function createRooms(limits: RelayLimits, probe?: RelayProbe): Rooms {
  const rooms = new Map<string, Room>()
  const drops: Drops = {}
  let peers = 0
  /** Dials without their other half. */
  let waiting = 0
  let joins = 0
  let toListenerBytes = 0
  let toDiallerBytes = 0
  let retired: (() => void) | undefined

  const sweep = setInterval(
    () => {
      const lastMs = performance.now() - limits.maxIdleMs
      for (const room of rooms.values()) {
        for (const { pair, activeMs } of room.pairs) {
          if (activeMs >= lastMs) continue
          note(room, 'idle')
          pair.destroy()
        }
      }
    },
    Math.max(10, Math.min(limits.maxIdleMs / 4, 10_000)),
  )

  function note(room: Room | undefined, reason: DropReason): void {
    countDrop(drops, reason)
    if (room !== undefined) countDrop(room.drops, reason)
  }

  function refuse(visitor: Visitor, reason: DropReason, code: SeamError['code'], message: string): void {
    note(rooms.get(visitor.request.room), reason)
    visitor.refuse(new SeamError(code, message))
  }

  /** Counts `visitor` in until it is gone. */
  function enter(room: Room, visitor: Visitor): void {
    peers += 1
    room.peers += 1
    visitor.onGone(() => {
      peers -= 1
      room.peers -= 1
      leaveIfEmpty(room)
    })
  }

  function leaveIfEmpty(room: Room): void {
    if (room.listener === undefined && room.peers === 0 && rooms.get(room.name) === room)
      rooms.delete(room.name)
    if (peers === 0) retired?.()
  }

  function admit(visitor: Visitor): void {
    const { room: name, role, key, mode } = visitor.request
    const room = rooms.get(name)
    if (retired !== undefined) return refuse(visitor, 'closing', 'CLOSED', 'the relay is closing')
    if (room !== undefined && !sameKey(room.key, key)) {
      return refuse(
        visitor,
        'key',
        'MISMATCH',
        `room ${name} has another key: give both peers the same secret`,
      )
    }
    if (role === 'accept') return accept(visitor, room)
    // A dial needs a place for the data connection of the listener too, which is kept until that comes.
    const places = role === 'dial' ? 2 : 1
    const taken = peers + waiting
    if (taken + places > limits.maxPeers) {
      return refuse(visitor, 'peers', 'BUSY', `the relay has ${taken} of ${limits.maxPeers} peers`)
    }
    const inRoom = room === undefined ? 0 : room.peers + room.dials.size
    if (room !== undefined && inRoom + places > limits.maxPeersPerRoom) {
      const message = `room ${name} has ${inRoom} of ${limits.maxPeersPerRoom} peers`
      return refuse(visitor, 'room_peers', 'BUSY', message)
    }
    if (room !== undefined && room.mode !== mode) {
      return refuse(visitor, 'mode', 'MISMATCH', `room ${name} is in mode ${room.mode}, this peer in ${mode}`)
    }
    if (role === 'listen') listen(visitor, room)
    else dial(visitor, room)
  }

  function listen(visitor: Visitor, found: Room | undefined): void {
    const { room: name, key, mode, token, keepAliveMs } = visitor.request
    if (found?.listener !== undefined && found.listener.token !== token) {
      return refuse(
        visitor,
        'taken',
        'USAGE',
        `room ${name} is taken by another listener, choose another room`,
      )
    }
    if (found === undefined && rooms.size >= limits.maxRooms) {
      return refuse(visitor, 'rooms', 'LIMIT', `the relay has ${rooms.size} of ${limits.maxRooms} rooms`)
    }
    const room = found ?? createRoom(name, key, mode)
    rooms.set(name, room)
    enter(room, visitor)
    const before = room.listener
    const remote = `the listener of room ${name}`
    const control: Control = createControl(visitor.grantControl(), {
      remote,
      keepAliveMs,
      onLine(line) {
        const [verb, ticket = ''] = line.split(' ')
        const dialled = verb === 'refuse' ? room.dials.get(ticket) : undefined
        if (dialled === undefined) return
        giveUp(room, ticket)
        refuse(dialled.visitor, 'join', 'RESET', `${remote} refused the connection`)
      },
      onLost(error) {
        if (error?.code === 'TIMEOUT') note(room, 'silent')
        if (room.listener?.control !== control) return
        room.listener = undefined
        for (const [ticket, { visitor: dialler }] of room.dials) {
          giveUp(room, ticket)
          refuse(dialler, 'no_listener', 'RESET', `${remote} left`)
        }
        leaveIfEmpty(room)
      },
    })
    room.listener = { control, token }
    before?.control.destroy(new SeamError('CLOSED', `${remote} registered again`))
  }

  function giveUp(room: Room, ticket: string): void {
    const dialled = room.dials.get(ticket)
    if (dialled === undefined) return
    clearTimeout(dialled.timer)
    room.dials.delete(ticket)
    waiting -= 1
  }

  function dial(visitor: Visitor, room: Room | undefined): void {
    const { room: name } = visitor.request
    if (room?.listener === undefined) {
      return refuse(visitor, 'no_listener', 'RESET', `nobody listens in room ${name}`)
    }
    enter(room, visitor)
    const ticket = randomBytes(16).toString('base64url')
    const timer = setTimeout(() => {
      giveUp(room, ticket)
      const late = `the listener of room ${name} did not come within ${limits.maxJoinMs} ms`
      refuse(visitor, 'join', 'TIMEOUT', late)
    }, limits.maxJoinMs)
    room.dials.set(ticket, { visitor, timer })
    waiting += 1
    visitor.onGone(() => giveUp(room, ticket))
    room.listener.control.send(`dial ${ticket} ${visitor.remote}`)
  }

  function accept(visitor: Visitor, room: Room | undefined): void {
    const { room: name, token } = visitor.request
    const dialled = room?.dials.get(token)
    if (room === undefined || dialled === undefined || room.mode !== visitor.request.mode) {
      return refuse(visitor, 'join', 'RESET', `nobody waits in room ${name} under this ticket`)
    }
    giveUp(room, token)
    enter(room, visitor)
    joins += 1
    const options = {
      frames: room.mode === 'ws',
      maxFrameBytes: limits.maxMessageBytes,
      maxQueuedBytes: limits.maxQueuedBytesPerPair,
      onBytes(from: 'dialler' | 'listener', bytes: number) {
        joined.activeMs = performance.now()
        if (from === 'dialler') {
          room.toListenerBytes += bytes
          toListenerBytes += bytes
        } else {
          room.toDiallerBytes += bytes
          toDiallerBytes += bytes
        }
      },
      probe,
      port: 2 * joins,
      onStall() {
        room.stalls += 1
      },
      onFault: (error: SeamError) => note(room, error.code === 'LIMIT' ? 'message_bytes' : 'frames'),
      onClose(cut: boolean) {
        if (cut) note(room, 'reset')
        room.pairs.delete(joined)
        leaveIfEmpty(room)
      },
    }
    const pair = splice(dialled.visitor.grantRaw(), visitor.grantRaw(), options)
    const joined: Joined = { pair, activeMs: performance.now() }
    room.pairs.add(joined)
  }

  return {
    admit,
    drop: (reason) => countDrop(drops, reason),
    metrics: () => ({
      rooms: [...rooms.values()].map((room) => ({
        room: room.name,
        listening: room.listener !== undefined,
        pairs: room.pairs.size,
        peers: room.peers,
        toListenerBytes: room.toListenerBytes,
        toDiallerBytes: room.toDiallerBytes,
        queuedBytes: [...room.pairs].reduce((sum, { pair }) => sum + pair.queuedBytes, 0),
        stalls: room.stalls,
        drops: { ...room.drops },
      })),
      peers,
      drops: { ...drops },
      joins,
      toListenerBytes,
      toDiallerBytes,
    }),
    retire() {
      return new Promise((resolve) => {
        retired = resolve
        for (const room of rooms.values()) {
          room.listener?.control.end()
          for (const [ticket, { visitor }] of room.dials) {
            giveUp(room, ticket)
            refuse(visitor, 'closing', 'CLOSED', 'the relay is closing')
          }
        }
        if (peers === 0) resolve()
      })
    },
    destroy() {
      clearInterval(sweep)
      for (const room of rooms.values()) {
        room.listener?.control.destroy(new SeamError('CLOSED', 'the relay closed'))
        for (const { pair } of room.pairs) {
          note(room, 'closing')
          pair.destroy()
        }
      }
    },
  }
}

function createRoom(name: string, key: string, mode: RelayRequest['mode']): Room {
  return {
    name,
    key,
    mode,
    pairs: new Set(),
    dials: new Map(),
    drops: {},
    listener: undefined,
    peers: 0,
    toListenerBytes: 0,
    toDiallerBytes: 0,
    stalls: 0,
  }
}
